"""Every epsilon of each client after each round, recomputed from the charges by dp_accounting."""

import math
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass

from fl_dp.accounting.cost import Cost
from fl_dp.accounting.events import merge
from fl_dp.clean_text import clean
from fl_dp.errors import ConfigError
from fl_dp.records import Entry
from fl_dp.reporting.reports import ClientReport, RoundReport, Summary
from fl_dp.reporting.wording import counted
from fl_dp.verify.check import Check, Evidence, Found
from fl_dp.verify.claims import ROUNDING, Charges, Claim, alone, missing
from fl_dp.verify.growth import steps_of
from fl_dp.verify.independent import (
    ABSOLUTE,
    LOOSER,
    RELATIVE,
    allowed,
    can_resolve,
    contradicts,
    epsilon_of,
)
from fl_dp.verify.reading import is_there, number, read_toml

_MOST_HISTORIES = 500_000  # kept in memory
_FAR_ABOVE, _FAR_ABOVE_ABSOLUTE = 0.05, 0.05  # for "pld", which is as tight as dp_accounting
_SURELY = 0.99  # share of a budget: two accountants may differ by the rest
_SECONDS = 2.0  # between two progress reports

_TOO_LOW = (
    "the epsilon that is claimed is lower than its charges cost: whoever believes it believes in more "
    "protection than there is"
)
_TOO_HIGH = (
    "the charges cost less than the epsilon that is claimed, and its accountant is not that loose: charges "
    "may have been left out"
)


@dataclass(slots=True)
class _Extremes:
    """Lowest and highest epsilon claimed for one history, and where."""

    lowest: float
    lowest_at: str
    highest: float
    highest_at: str
    count: int = 1

    def add(self, epsilon: float, where: str) -> None:
        self.count += 1
        if epsilon < self.lowest:
            self.lowest, self.lowest_at = epsilon, where
        if epsilon > self.highest:
            self.highest, self.highest_at = epsilon, where


_History = tuple[Charges, float, str]  # charges, delta, accountant


class _Recomputed:
    """Collects the claims by history, then computes each history once."""

    def __init__(self, found: Found) -> None:
        self._found = found
        self._histories: dict[_History, _Extremes] = {}
        self.left_out = self.claims = 0

    def add(self, client: ClientReport, where: str) -> None:
        if not 0.0 < client.delta < 1.0:
            self._found.differs(
                f"delta {client.delta:g}", where, "no delta can be that: it lies between 0 and 1"
            )
            return
        self._hold_both(client, client, where)
        if client.this_run is not None:
            self._hold_both(client, client.this_run, where)
            if client.this_run.claimed_epsilon is not None:
                rest = missing(client.this_run.charges, client.charges)
                self._hold(client, rest, client.this_run.claimed_epsilon, where)

    def _hold_both(self, client: ClientReport, claimed: Cost, where: str) -> None:
        """Note both epsilons that are claimed for the charges."""
        self._hold(client, claimed.charges, claimed.epsilon, where)
        if claimed.epsilon_alone is not None:
            self._hold(client, alone(claimed.charges), claimed.epsilon_alone, where)
        elif any(one.shared for one in claimed.charges):
            self._found.differs(
                "its charges are of secure sums, and it does not say what holds if their assumption fails",
                where,
                "the second epsilon was left out",
            )

    def _hold(self, client: ClientReport, charges: Charges, epsilon: float, where: str) -> None:
        """Note the claimed epsilon of the charges. An infinite one is always on the safe side."""
        key = charges, client.delta, client.accountant
        if known := self._histories.get(key):
            known.add(epsilon, where)
        elif len(self._histories) >= _MOST_HISTORIES:
            self.left_out += 1
            return
        else:
            self._histories[key] = _Extremes(epsilon, where, epsilon, where)
        self.claims += 1

    def compare(self, evidence: Evidence) -> None:
        """Compare all claims with dp_accounting; histories of one mechanism in a row reuse it."""
        began = said = time.monotonic()
        looser: dict[str, float] = {}
        for place, (history, claimed) in enumerate(
            sorted(self._histories.items(), key=lambda one: one[0]), 1
        ):
            if time.monotonic() - said > _SECONDS:
                said = time.monotonic()
                evidence.progress(f"epsilon {place} of {len(self._histories)}, {said - began:.0f} s")
            self._compare(history, claimed, looser)
        for accountant, most in sorted(looser.items()):
            self._found.note(
                f"epsilons by {clean(accountant)} are up to {100 * most:.0f} % above dp_accounting's",
                means="it is a looser accountant, to the safe side",
            )

    def _compare(self, history: _History, claimed: _Extremes, looser: dict[str, float]) -> None:
        charges, delta, accountant = history
        if not can_resolve(charges, delta):
            self._found.not_given(
                f"an answer of dp_accounting at delta {delta:g}", "so small a delta is lost in its rounding"
            )
            return
        truth = contradicts(claimed.lowest, charges, delta)
        if truth is not None:
            costs = f"cost {truth:.4f}" if math.isfinite(truth) else "protect nothing"
            self._found.differs(
                f"epsilon {claimed.lowest:.4f}, and its charges {costs} at delta {delta:g}",
                claimed.lowest_at,
                _TOO_LOW,
            )
        if not math.isfinite(claimed.highest):
            return
        truth = epsilon_of(charges, delta)
        excess = claimed.highest - truth
        if accountant == "pld" and excess > _FAR_ABOVE * truth + _FAR_ABOVE_ABSOLUTE:
            self._found.differs(
                f"epsilon {claimed.highest:.4f}, and its charges cost {truth:.4f} at delta {delta:g}",
                claimed.highest_at,
                _TOO_HIGH,
            )
        elif excess > LOOSER * truth + LOOSER:
            looser[accountant] = max(looser.get(accountant, 0.0), excess / max(truth, ABSOLUTE))

    def conclude(self) -> None:
        found = self._found
        if self.left_out:
            found.not_given(f"time for {self.left_out} claims beyond {_MOST_HISTORIES} histories")
        if self.claims and not found.any_differ:
            found.agrees(
                f"{counted(self.claims, 'epsilon')} of clients, with {len(self._histories)} different "
                f"histories, were computed again by dp_accounting: none here is lower by more than the "
                f"allowed error ({100 * RELATIVE:g} % + {ABSOLUTE:g})"
            )


def _run(evidence: Evidence, found: Found) -> None:
    recomputed = _Recomputed(found)
    last_steps: dict[str, int] = {}
    for claim in evidence.claims():
        for name, client in claim.report.clients.items():
            recomputed.add(client, claim.of(name))
            last_steps[name] = steps_of(client) or last_steps.get(name, 0)
        _check_together(claim, found)
    if evidence.summary is not None and evidence.summary.private:
        claim_of_all = Claim(evidence.folder.summary.name, evidence.summary)
        _check_planned(claim_of_all, last_steps, _run_epsilon(evidence), found)
    recomputed.compare(evidence)
    recomputed.conclude()


def _check_together(claim: Claim[RoundReport | Summary], found: Found) -> None:
    """The federation's epsilon and delta: this run's cost to the clients that have paid for it."""
    report, clients = claim.report, claim.report.counted.values()
    together, costs = report.federation, [one.cost for one in clients]
    if together is None or not report.clients:
        return
    epsilons = [one.epsilon for one in costs] or [0.0]
    expected = {
        "largest epsilon": (max(epsilons), together.largest),
        "median epsilon": (statistics.median(epsilons), together.median),
        "least epsilon": (min(epsilons), together.least),
        "delta": (max((one.delta for one in clients), default=0.0), report.delta),
    }
    if report.private:
        expected["epsilon"] = max(epsilons), report.epsilon
    alones = [one.epsilon_alone for one in costs]
    if together.epsilon_alone is not None or any(one is not None for one in alones):
        each = (one.epsilon if one.epsilon_alone is None else one.epsilon_alone for one in costs)
        total = max(each, default=0.0) if report.private else math.inf
        expected["alone epsilon"] = total, together.epsilon_alone or 0.0
    for name, (truth, claimed) in expected.items():
        if not _same(truth, claimed):
            found.differs(
                f"the federation's {name} is said to be {_shown(claimed)}, and by its clients' it is "
                f"{_shown(truth)}",
                claim.where,
                "the guarantee of all clients together is not that of its clients",
            )


def _run_epsilon(evidence: Evidence) -> float:
    """The most that the run may cost a client, by config.toml; infinite if nothing says it."""
    if not is_there(evidence.folder.config):
        return math.inf
    try:
        return number(read_toml(evidence.folder.config).get("epsilon", math.inf))
    except (ConfigError, ValueError):  # it names no limit
        return math.inf


def _check_planned(
    claim: Claim[Summary], last_steps: Mapping[str, int], run_epsilon: float, found: Found
) -> None:
    """Somebody who stops the run because of its results has learnt no less than what was spent."""
    summary = claim.report
    ahead = summary.federation.rounds_ahead if summary.federation else 0
    for name, one in summary.clients.items():
        planned, where = one.planned_epsilon, claim.of(name)
        if planned is None:
            continue
        if planned < one.epsilon or (ahead == 0 and not _same(planned, one.epsilon)):
            found.differs(
                f"planned epsilon {planned:.4f}, spent {_shown(one.epsilon)}",
                where,
                "the plan costs no less than what was run of it, nor more where nothing was left",
            )
        if planned > max(one.budget, one.epsilon) * (1 + ROUNDING):
            found.differs(
                f"planned epsilon {planned:.4f} of a budget of {one.budget:g}",
                where,
                "no ledger would have allowed that",
            )
        _check_plan_ahead(one, where, ahead, last_steps.get(name, 0), planned, found, run_epsilon)
    if summary.planned_epsilon is None or summary.federation is None:
        return
    plans = [one.cost.planned_epsilon for one in summary.counted.values()]
    total = max((one for one in plans if one is not None), default=0.0)
    if None in plans or not _same(total, summary.planned_epsilon):
        found.differs(
            f"the federation's planned epsilon is said to be {_shown(summary.planned_epsilon)}, and by its "
            f"clients' it is {_shown(None if None in plans else total)}",
            claim.where,
            "the guarantee of the whole plan is not that of its clients",
        )
    for name, one in summary.clients.items():
        if one.this_run is None:
            continue
        planned, cost = one.this_run.planned_epsilon, one.this_run.epsilon
        most = math.inf if one.planned_epsilon is None else one.planned_epsilon
        if planned is None or not cost <= planned <= most * (1 + ROUNDING):
            found.differs(
                f"planned epsilon {_shown(planned)} of this run, which has cost {_shown(cost)}, and "
                f"{_shown(most)} with all that was there before",
                claim.of(name),
                "the plan costs no less than what was run of it, and is a part of all that is spent",
            )


def _check_plan_ahead(
    one: ClientReport, where: str, ahead: int, own: int, planned: float, found: Found, run_epsilon: float
) -> None:
    """The planned epsilon covers the rounds ahead, each with the steps of the client's last one.

    That holds if the budget and the run's limit certainly have room for them; otherwise for a single step. If
    either ends within the plan, no more is required.
    """
    rate, noise = one.sample_rate, one.noise_multiplier
    if not (ahead and own and one.charges and rate and noise and 0.0 < one.delta < 1.0):
        return
    if one.accountant != "pld":
        return
    for steps in (ahead * own, 1):
        more = Entry(rate, noise, steps)
        truth = _cost(merge((*one.charges, more)), one.delta)
        of_run = _cost(merge((*one.cost.charges, more)), one.delta) if one.this_run else truth
        if truth > _SURELY * one.budget or of_run > _SURELY * run_epsilon:
            continue
        if planned < allowed(truth):
            found.differs(
                f"planned epsilon {planned:.4f}, and {steps} of the steps ahead cost {truth:.4f}",
                where,
                "the rounds that were not run would have cost more",
            )
        return


def _cost(charges: Charges, delta: float) -> float:
    return epsilon_of(charges, delta) if can_resolve(charges, delta) else math.inf


def _same(truth: float, claimed: float | None) -> bool:
    return math.isclose(truth, math.inf if claimed is None else claimed, rel_tol=ROUNDING, abs_tol=1e-15)


def _shown(value: float | None) -> str:
    return "not finite" if value is None or not math.isfinite(value) else f"{value:.4g}"


CHECK = Check(place=1, run=_run)
