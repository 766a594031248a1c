"""What a training plan costs: the answer of `fl-dp budget` and `fl-dp calibrate`."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from fl_dp.accounting.accountant import find_accountant
from fl_dp.accounting.alone import any_shared, compute_epsilon_alone
from fl_dp.accounting.calibration import rounds_that_fit, steps_that_fit
from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.accounting.training_plan import TrainingPlan
from fl_dp.records import Entry
from fl_dp.reporting.console import alone_words, rounded_up
from fl_dp.reporting.reports import BEYOND_USE
from fl_dp.reporting.table import print_table
from fl_dp.reporting.wording import counted

_COURSE = 5  # intermediate points before the last round


def report_plan(plan: TrainingPlan, delta: float, accountant: str, budget: float | None) -> dict[str, Any]:
    """Epsilon of a plan, and how much of it a budget allows; every phase has its noise multiplier.

    upper_bound: whether epsilon is proven to be one. rdp: epsilon by RDP, for comparison; None if it has no
    answer. course: epsilon along the way, the last round last. budget: the requested epsilon, if any;
    fitting_rounds whole rounds stay within it, and fitting_steps of the round after them. epsilon_alone: if
    the assumption behind secure sums fails; absent without them, as are shares.
    """
    rounds = list(plan.rounds())

    def epsilon_after(count: int) -> float:
        return compute_epsilon(rounds[:count], delta, accountant)

    stops = sorted({-(-len(rounds) * part // _COURSE) for part in range(1, _COURSE + 1)})
    fitting = (None, None) if budget is None else _fitting(rounds, budget, delta, accountant)
    phases = [{**dataclasses.asdict(one), "sample_rate": one.sample_rate} for one in plan.phases]
    alone = {}
    if any_shared(rounds):
        alone["epsilon_alone"] = compute_epsilon_alone(rounds, delta, accountant)
    else:
        for phase in phases:  # the form from before secure sums
            del phase["shares"]
    return {
        "delta": delta,
        "accountant": accountant,
        "upper_bound": find_accountant(accountant).upper_bound,
        "epsilon": epsilon_after(len(rounds)),
        "rdp": compute_epsilon(rounds, delta, "rdp"),
        "course": [{"round": stop, "epsilon": epsilon_after(stop)} for stop in stops],
        "budget": budget,
        "fitting_rounds": fitting[0],
        "fitting_steps": fitting[1],
        **alone,
        "phases": phases,
    }


def _fitting(rounds: list[Entry], budget: float, delta: float, accountant: str) -> tuple[int, int]:
    """Whole rounds within the budget, and steps of the next one: what a client's ledger would allow."""
    whole = rounds_that_fit(rounds, budget, delta, accountant=accountant)
    if whole == len(rounds):
        return whole, 0
    steps = steps_that_fit(rounds[whole], budget, delta, spent=rounds[:whole], accountant=accountant)
    return whole, steps


def print_plan(report: Mapping[str, Any]) -> None:
    """Print the plan, then what it costs along the way."""
    phases, rdp, budget = report["phases"], report["rdp"], report["budget"]
    columns = {
        "rounds": "{rounds}",
        "batch size": "{batch_size}",
        "sample rate": "{sample_rate:.6g}",
        "steps a round": "{steps}",
        "noise multiplier": "{noise_multiplier:g}",
    }
    if "epsilon_alone" in report:
        columns |= {"shares": "{shares}"}
    rows = [[form.format(**phase) for form in columns.values()] for phase in phases]
    print_table("The plan, at one client", list(columns), rows)
    print()
    course = [(str(point["round"]), rounded_up(point["epsilon"])) for point in report["course"]]
    title = f"Epsilon at delta {report['delta']:g}, by {report['accountant']}"
    print_table(title, ("after round", "epsilon"), course)
    if not report["upper_bound"]:
        print(
            f"({report['accountant']} gives no proven upper bound, so it may not be used for a client's "
            "budget)"
        )
    if report["accountant"] != "rdp" and rdp is not None:
        print(f"(by rdp, a faster and looser bound: {rounded_up(rdp)})")
    if "epsilon_alone" in report:
        holds = alone_words(report["epsilon_alone"])
        useless = f" (infinite, or above {BEYOND_USE:g})" if holds == "none" else ""
        print(
            "\nThis holds against everybody who sees no more than sums of clients. If this assumption "
            f"fails, only a\nclient's own share of the noise protects it, and epsilon is {holds}{useless}."
        )
    if budget is not None:
        whole, total = report["fitting_rounds"], sum(phase["rounds"] for phase in phases)
        verdict = (
            f"A budget of epsilon {budget:g} is spent after {whole} of {total} rounds "
            f"and {counted(report['fitting_steps'], 'step')} of the next."
        )
        print(f"\nWithin the budget of epsilon {budget:g}." if whole == total else f"\n{verdict}")
    if len({(phase["sample_rate"], phase["noise_multiplier"]) for phase in phases}) > 1:
        print(
            "\nSample rate or noise changes between rounds: epsilon holds only if this is fixed "
            "beforehand.\nClients of a federation accept it only with vary-mechanism (docs/privacy.md)."
        )
