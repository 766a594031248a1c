"""Every epsilon of every client after every round, recomputed from the charges by dp_accounting."""

import math
import statistics
import time
from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import Any

from fl_dp.accounting.cost import Cost
from fl_dp.accounting.events import merge
from fl_dp.clean_text import clean
from fl_dp.errors import ConfigError
from fl_dp.records import Entry
from fl_dp.reporting.reports import ClientReport, RoundReport, Summary
from fl_dp.reporting.wording import counted
from fl_dp.verify.check import Check, Evidence, Found
from fl_dp.verify.claims import NO_SUCH_DELTA, ROUNDING, Charges, Claim, alone, missing, named, shown
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
from fl_dp.verify.reading import is_there, read_toml

_MOST_HISTORIES = 500_000  # kept in memory
_FAR_ABOVE, _FAR_ABOVE_ABSOLUTE = 0.05, 0.05  # for "pld", which is as tight as dp_accounting
_SURELY = 0.99  # share of a budget; two accountants may differ by the rest
_SECONDS = 2.0  # between two progress reports

TOO_LOW = "the claimed epsilon is below the cost of its charges: it promises more protection than there is"
_TOO_HIGH = (
    "the claimed epsilon is above the cost of its charges, and its accountant is not that loose: charges may "
    "have been left out"
)


_History = tuple[Charges, float, str]  # charges, delta, accountant
_Claim = tuple[float, str]  # an epsilon, and its place
_Range = tuple[_Claim, _Claim]  # the lowest and the highest claim about one history


def claimed_epsilons(cost: Cost, where: str, found: Found) -> Iterator[tuple[str, Charges, float]]:
    """What each claimed epsilon of the charges is called, what it counts, and its value."""
    yield "epsilon", cost.charges, cost.epsilon
    if cost.epsilon_alone is not None:
        yield "epsilon alone", alone(cost.charges), cost.epsilon_alone
    elif any(one.shared for one in cost.charges):
        found.differs(
            "its charges are of secure sums, and it does not say what holds if their assumption fails",
            where,
            "the second epsilon was left out",
        )


def is_resolved(charges: Charges, delta: float, found: Found) -> bool:
    """As `can_resolve`, which is reported if not."""
    if can_resolve(charges, delta):
        return True
    found.not_given(f"an answer of dp_accounting at delta {delta:g}", "its rounding hides so small a delta")
    return False


class _Recomputed:
    """Collects the claims by history, and then computes each history once."""

    def __init__(self, found: Found) -> None:
        self._found = found
        self._histories: dict[_History, _Range] = {}
        self.left_out = self.claims = 0

    def add(self, client: ClientReport, where: str) -> None:
        if not 0.0 < client.delta < 1.0:
            self._found.differs(f"delta {client.delta:g}", where, NO_SUCH_DELTA)
            return
        for cost in (client, *([client.this_run] if client.this_run else [])):
            for _, charges, epsilon in claimed_epsilons(cost, where, self._found):
                self._hold(client, charges, epsilon, where)
        if client.this_run is not None and client.this_run.claimed_epsilon is not None:
            rest = missing(client.this_run.charges, client.charges)
            self._hold(client, rest, client.this_run.claimed_epsilon, where)

    def _hold(self, client: ClientReport, charges: Charges, epsilon: float, where: str) -> None:
        """Keep the claimed epsilon of the charges, to be compared. An infinite one is always safe."""
        key, claim = (charges, client.delta, client.accountant), (epsilon, where)
        if key not in self._histories and len(self._histories) >= _MOST_HISTORIES:
            self.left_out += 1
            return
        low, high = self._histories.get(key, (claim, claim))
        self._histories[key] = min(low, claim, key=itemgetter(0)), max(high, claim, key=itemgetter(0))
        self.claims += 1

    def compare(self, evidence: Evidence) -> None:
        """Compare all claims with dp_accounting. Sorted histories let one mechanism be computed once."""
        began = said = time.monotonic()
        looser: dict[str, float] = {}
        for place, (history, claimed) in enumerate(sorted(self._histories.items()), 1):
            if time.monotonic() - said > _SECONDS:
                said = time.monotonic()
                evidence.progress(f"epsilon {place} of {len(self._histories)}, {said - began:.0f} s")
            self._compare(history, claimed, looser)
        for accountant, most in sorted(looser.items()):
            self._found.note(
                f"epsilons by {clean(accountant)} are up to {100 * most:.0f} % above dp_accounting's",
                means="this accountant is looser, which is safe",
            )

    def _compare(self, history: _History, claimed: _Range, looser: dict[str, float]) -> None:
        (charges, delta, accountant), ((lowest, lowest_at), (highest, highest_at)) = history, claimed
        if not is_resolved(charges, delta, self._found):
            return
        truth = contradicts(lowest, charges, delta)
        if truth is not None:
            costs = f"cost {shown(truth)}" if math.isfinite(truth) else "protect nothing"
            self._found.differs(
                f"epsilon {shown(lowest)}, and its charges {costs} at delta {delta:g}",
                lowest_at,
                TOO_LOW,
            )
        if not math.isfinite(highest):
            return
        truth = epsilon_of(charges, delta)
        excess = highest - truth
        if accountant == "pld" and excess > _FAR_ABOVE * truth + _FAR_ABOVE_ABSOLUTE:
            self._found.differs(
                f"epsilon {shown(highest)}, and its charges cost {shown(truth)} at delta {delta:g}",
                highest_at,
                _TOO_HIGH,
            )
        elif excess > LOOSER * truth + LOOSER:
            looser[accountant] = max(looser.get(accountant, 0.0), excess / max(truth, ABSOLUTE))

    def conclude(self) -> None:
        found = self._found
        if self.left_out:
            claims = counted(self.left_out, "claim")
            found.not_given(f"time for {claims} beyond the first {_MOST_HISTORIES} histories")
        if self.claims and not found.any_differ:
            found.agrees(
                f"dp_accounting has computed {counted(self.claims, 'epsilon')} of clients again, from "
                f"{counted(len(self._histories), 'history', 'histories')}: none here is lower by more than "
                f"the allowed error ({100 * RELATIVE:g} % + {ABSOLUTE:g})"
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
    """Check the federation's epsilon and delta: this run's cost to the clients that have paid for it."""
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
                f"the federation's {name} is given as {named(name, claimed)}, but by its clients' it is "
                f"{named(name, truth)}",
                claim.where,
                "the federation's guarantee does not follow from its clients'",
            )


def _run_epsilon(evidence: Evidence) -> float:
    """The most that the run may cost a client, by config.toml; infinite if it does not say."""
    if not is_there(evidence.folder.config):
        return math.inf
    try:
        found: Any = read_toml(evidence.folder.config).get("epsilon")
    except ConfigError:
        return math.inf
    is_number = isinstance(found, int | float) and not isinstance(found, bool) and abs(found) < 1e300
    return float(found) if is_number else math.inf


def _check_planned(
    claim: Claim[Summary], last_steps: Mapping[str, int], run_epsilon: float, found: Found
) -> None:
    """Check the plan's epsilon: if results decide when a run stops, all of its plan counts."""
    summary = claim.report
    ahead = summary.federation.rounds_ahead if summary.federation else 0
    for name, one in summary.clients.items():
        planned, where = one.planned_epsilon, claim.of(name)
        if planned is None:
            continue
        if planned < one.epsilon or (ahead == 0 and not _same(planned, one.epsilon)):
            found.differs(
                f"planned epsilon {shown(planned)}, spent {shown(one.epsilon)}",
                where,
                "a plan costs no less than what was run of it, and no more if nothing was left",
            )
        if planned > max(one.budget, one.epsilon) * (1 + ROUNDING):
            found.differs(
                f"planned epsilon {shown(planned)} of a budget of {one.budget:g}",
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
            f"the federation's planned epsilon is given as {shown(summary.planned_epsilon)}, but by its "
            f"clients' it is {shown(None if None in plans else total)}",
            claim.where,
            "the guarantee of the whole plan does not follow from its clients'",
        )
    for name, one in summary.clients.items():
        if one.this_run is None:
            continue
        planned, cost = one.this_run.planned_epsilon, one.this_run.epsilon
        most = math.inf if one.planned_epsilon is None else one.planned_epsilon
        if planned is None or not cost <= planned <= most * (1 + ROUNDING):
            found.differs(
                f"planned epsilon {shown(planned)} of this run, which has cost {shown(cost)}, and "
                f"{shown(most)} with all that was spent before",
                claim.of(name),
                "a plan costs no less than what was run of it, and no more than all spending together",
            )


def _check_plan_ahead(
    one: ClientReport, where: str, ahead: int, own: int, planned: float, found: Found, run_epsilon: float
) -> None:
    """Check that the planned epsilon covers the rounds ahead, each with the steps of the client's last one.

    If budget or run limit may end before them, it covers a single step. If they may end even before that,
    nothing is required.
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
                f"planned epsilon {shown(planned)}, and {steps} of the steps ahead cost {shown(truth)}",
                where,
                "the rounds that were not run would have cost more",
            )
        return


def _cost(charges: Charges, delta: float) -> float:
    return epsilon_of(charges, delta) if can_resolve(charges, delta) else math.inf


def _same(truth: float, claimed: float | None) -> bool:
    return math.isclose(truth, math.inf if claimed is None else claimed, rel_tol=ROUNDING, abs_tol=1e-15)


CHECK = Check(place=1, run=_run)
