"""Every epsilon of each client after each round, recomputed from the charges by dp_accounting."""

import math
import statistics
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fl_dp.clean_text import clean
from fl_dp.errors import ConfigError
from fl_dp.records import Entry
from fl_dp.reporting.reports import THIS_RUN, epsilon_from_json
from fl_dp.reporting.wording import counted
from fl_dp.verify.check import Check, Evidence, Found
from fl_dp.verify.claims import ROUNDING, Charges, Claim, ClientClaim, CostClaim, alone, merged, missing
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
        self.without_charges = self.left_out = self.claims = 0

    def add(self, client: ClientClaim) -> None:
        if client.charges is None or client.delta is None:
            self.without_charges += 1
            return
        if not 0.0 < client.delta < 1.0:
            self._found.differs(
                f"delta {client.delta:g}", client.where, "no delta can be that: it lies between 0 and 1"
            )
            return
        self._hold_both(client, client.charges, client)
        if client.this_run is not None and client.this_run.charges is not None:
            self._hold_both(client, client.this_run.charges, client.this_run)
            if client.this_run.claimed_epsilon is not None:
                rest = missing(client.this_run.charges, client.charges)
                self._hold(client, rest, client.this_run.claimed_epsilon)

    def _hold_both(self, client: ClientClaim, charges: Charges, claimed: ClientClaim | CostClaim) -> None:
        """Note both epsilons that are claimed for the charges."""
        self._hold(client, charges, claimed.epsilon)
        if claimed.says_alone:
            self._hold(client, alone(charges), claimed.epsilon_alone)
        elif any(one.shares > 1 for one in charges):
            self._found.differs(
                "its charges are of secure sums, and it does not say what holds if their assumption fails",
                client.where,
                "the second epsilon was left out",
            )

    def _hold(self, client: ClientClaim, charges: Charges, claimed: float | None) -> None:
        """Note the claimed epsilon of the charges. An infinite one is always on the safe side."""
        assert client.delta is not None
        epsilon = epsilon_from_json(claimed)
        key = charges, client.delta, client.accountant
        if known := self._histories.get(key):
            known.add(epsilon, client.where)
        elif len(self._histories) >= _MOST_HISTORIES:
            self.left_out += 1
            return
        else:
            self._histories[key] = _Extremes(epsilon, client.where, epsilon, client.where)
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
                claimed.lowest_at, _TOO_LOW,
            )  # fmt: skip
        if not math.isfinite(claimed.highest):
            return
        truth = epsilon_of(charges, delta)
        excess = claimed.highest - truth
        if accountant == "pld" and excess > _FAR_ABOVE * truth + _FAR_ABOVE_ABSOLUTE:
            self._found.differs(
                f"epsilon {claimed.highest:.4f}, and its charges cost {truth:.4f} at delta {delta:g}",
                claimed.highest_at, _TOO_HIGH,
            )  # fmt: skip
        elif excess > LOOSER * truth + LOOSER:
            looser[accountant] = max(looser.get(accountant, 0.0), excess / max(truth, ABSOLUTE))

    def conclude(self) -> None:
        found = self._found
        if self.without_charges:
            found.not_given(
                f"charges or delta beside {counted(self.without_charges, 'epsilon')}",
                "an older fl_dp did not write them; these epsilons cannot be checked",
            )
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
        for client in claim.clients.values():
            recomputed.add(client)
            if client.own_steps:
                last_steps[client.name] = client.own_steps
        _check_together(claim, found)
    if evidence.summary is not None and evidence.summary.private:
        _check_planned(evidence.summary, last_steps, _run_epsilon(evidence), found)
    recomputed.compare(evidence)
    recomputed.conclude()
    _note_last(evidence, found)


def _note_last(evidence: Evidence, found: Found) -> None:
    """A note on the last claim: an epsilon that is right for its charges may not bound what was released."""
    last = next(iter(deque(evidence.claims(), maxlen=1)), None)
    tells = last and any(one.charges is not None for one in last.clients.values())
    if last and tells and last.together and last.together.scope != THIS_RUN:
        found.note(
            "the federation's epsilon counts all that every client has shown, also of other runs",
            last.where,
            "an older fl_dp wrote it so: a site that took no part can have raised it, and none can have "
            "lowered it",
        )


def _check_together(claim: Claim, found: Found) -> None:
    """The federation's epsilon and delta: this run's cost to the clients that have paid for it.

    An older fl_dp counted all that any client had shown.
    """
    together, clients = claim.together, claim.counted
    if together is None or not claim.clients:
        return
    costs = [one.cost for one in clients]
    epsilons = [epsilon_from_json(one.epsilon) for one in costs] or [0.0]
    expected = {
        "largest": (max(epsilons), together.largest),
        "median": (statistics.median(epsilons), together.median),
        "least": (min(epsilons), together.least),
    }
    if claim.private:
        expected["epsilon"] = max(epsilons), claim.epsilon
    deltas = [one.delta for one in clients if one.delta is not None]
    if len(deltas) == len(clients):
        expected["delta"] = max(deltas, default=0.0), claim.delta
    if together.says_alone or any(one.says_alone for one in costs):
        each = [
            epsilon_from_json(one.epsilon_alone) if one.says_alone else epsilon_from_json(one.epsilon)
            for one in costs
        ]
        total = max(each, default=0.0) if claim.private else math.inf
        claimed = together.epsilon_alone if together.says_alone else 0.0
        expected["alone"] = total, claimed
    for name, (truth, claimed) in expected.items():
        words = name if name in ("epsilon", "delta") else f"{name} epsilon"
        if not _same(truth, claimed):
            found.differs(
                f"the federation's {words} is said to be {_shown(claimed)}, and by its clients' it is "
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


def _check_planned(summary: Claim, last_steps: Mapping[str, int], run_epsilon: float, found: Found) -> None:
    """Somebody who stops the run because of its results has learnt no less than what was spent."""
    ahead = summary.together.rounds_ahead if summary.together else 0
    known = [one for one in summary.clients.values() if one.planned_epsilon is not None]
    for one in known:
        planned, spent = float(one.planned_epsilon or 0.0), epsilon_from_json(one.epsilon)
        if planned < spent or (ahead == 0 and not _same(planned, spent)):
            found.differs(
                f"planned epsilon {planned:.4f}, spent {_shown(spent)}", one.where,
                "the plan costs no less than what was run of it, nor more where nothing was left",
            )  # fmt: skip
        if one.budget is not None and planned > max(one.budget, spent) * (1 + ROUNDING):
            found.differs(
                f"planned epsilon {planned:.4f} of a budget of {one.budget:g}", one.where,
                "no ledger would have allowed that",
            )  # fmt: skip
        _check_plan_ahead(one, ahead, last_steps.get(one.name, 0), planned, found, run_epsilon)
    if summary.planned_epsilon is None or summary.together is None:
        return
    if any(one.cost.planned_epsilon is None for one in summary.counted):
        found.differs(
            "the federation has a planned epsilon, and a client has none", summary.where,
            "the guarantee of the whole plan is not that of its clients",
        )  # fmt: skip
        return
    _check_planned_costs(summary, found)
    plans: Sequence[float] = [float(one.cost.planned_epsilon or 0.0) for one in summary.counted]
    total = max(plans, default=0.0)
    if not _same(total, summary.planned_epsilon):
        found.differs(
            f"the federation's planned epsilon is said to be {_shown(summary.planned_epsilon)}, and by its "
            f"clients' it is {_shown(total)}",
            summary.where, "the guarantee of the whole plan is not that of its clients",
        )  # fmt: skip


def _check_planned_costs(summary: Claim, found: Found) -> None:
    """Planned costs of this run alone: no less than its cost, no more than with everything spent before."""
    for one in summary.clients.values():
        if one.this_run is None:
            continue
        planned, cost = one.this_run.planned_epsilon, epsilon_from_json(one.this_run.epsilon)
        most = epsilon_from_json(one.planned_epsilon)
        if planned is None or not cost <= planned <= most * (1 + ROUNDING):
            found.differs(
                f"planned epsilon {_shown(planned)} of this run, which has cost {_shown(cost)}, and "
                f"{_shown(most)} with all that was there before", one.where,
                "the plan costs no less than what was run of it, and is a part of all that is spent",
            )  # fmt: skip


def _check_plan_ahead(
    one: ClientClaim, ahead: int, own: int, planned: float, found: Found, run_epsilon: float = math.inf
) -> None:
    """The planned epsilon covers the rounds ahead, each with the steps of the client's last one.

    That holds if the budget and the run's limit certainly have room for them; otherwise for a single step. If
    either ends within the plan, no more is required.
    """
    rate, noise = one.sample_rate, one.noise_multiplier
    if not (ahead and own and one.charges and one.budget and rate and noise and one.delta):
        return
    if one.accountant != "pld" or not 0.0 < one.delta < 1.0:
        return
    for steps in (ahead * own, 1):
        more = Entry(rate, noise, steps)
        truth = _cost(merged((*one.charges, more)), one.delta)
        of_run = _cost(merged((*(one.cost.charges or ()), more)), one.delta) if one.this_run else truth
        if truth > _SURELY * one.budget or of_run > _SURELY * run_epsilon:
            continue
        if planned < allowed(truth):
            found.differs(
                f"planned epsilon {planned:.4f}, and {steps} of the steps ahead cost {truth:.4f}", one.where,
                "the rounds that were not run would have cost more",
            )  # fmt: skip
        return


def _cost(charges: Charges, delta: float) -> float:
    return epsilon_of(charges, delta) if can_resolve(charges, delta) else math.inf


def _same(truth: float, claimed: float | None) -> bool:
    if claimed is None or not math.isfinite(truth):
        return claimed is None and not math.isfinite(truth)
    return math.isclose(truth, claimed, rel_tol=ROUNDING, abs_tol=1e-15)


def _shown(value: float | None) -> str:
    return "not finite" if value is None or not math.isfinite(value) else f"{value:.4g}"


CHECK = Check(place=1, run=_run)
