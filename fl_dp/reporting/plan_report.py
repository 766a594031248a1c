"""What a plan of training costs: the answer of `fl-dp budget` and `fl-dp calibrate`."""

import dataclasses
from dataclasses import dataclass
from typing import Any

from fl_dp.accounting.accountant import find_accountant
from fl_dp.accounting.alone import any_shared, compute_epsilon_alone
from fl_dp.accounting.calibration import rounds_that_fit, steps_that_fit
from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.accounting.training_plan import Phase, TrainingPlan
from fl_dp.records import Entry
from fl_dp.reporting.console import alone_words, rounded_up
from fl_dp.reporting.reports import BEYOND_USE, strict_json
from fl_dp.reporting.table import print_table
from fl_dp.reporting.wording import counted

_COURSE = 5  # points of the way to the last round


@dataclass(frozen=True, slots=True)
class PlanReport:
    """Epsilon of a plan, and how much of it a budget allows.

    upper_bound: whether epsilon is proven to be one. course: (round, epsilon after it), the last round last.
    rdp: epsilon by RDP, for comparison; None where it has no answer. epsilon_alone: if the assumption behind
    secure sums fails; None without them. budget: the epsilon asked for, if any; fitting_rounds whole rounds
    stay within it, and fitting_steps of the round after them.
    """

    plan: TrainingPlan
    delta: float
    accountant: str
    upper_bound: bool
    epsilon: float
    rdp: float | None
    course: tuple[tuple[int, float], ...]
    budget: float | None
    fitting_rounds: int | None
    fitting_steps: int | None
    epsilon_alone: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it; an infinite epsilon is None."""
        plan = self.plan.phases
        phases = [{**dataclasses.asdict(phase), "sample_rate": phase.sample_rate} for phase in plan]
        for phase in phases if self.epsilon_alone is None else ():  # as it was before there were secure sums
            del phase["shares"], phase["copies"]
        course = [{"round": number, "epsilon": epsilon} for number, epsilon in self.course]
        content = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name != "plan"}
        if self.epsilon_alone is None:
            del content["epsilon_alone"]
        return dict(strict_json({**content, "phases": phases, "course": course}))


def report_plan(plan: TrainingPlan, delta: float, accountant: str, budget: float | None) -> PlanReport:
    """Compute it; every phase has its noise multiplier."""
    rounds = list(plan.rounds())

    def epsilon_after(count: int) -> float:
        return compute_epsilon(rounds[:count], delta, accountant)

    stops = sorted({-(-len(rounds) * part // _COURSE) for part in range(1, _COURSE + 1)})
    fitting = None if budget is None else _fitting(rounds, budget, delta, accountant)
    return PlanReport(
        plan=plan,
        delta=delta,
        accountant=accountant,
        upper_bound=find_accountant(accountant).upper_bound,
        epsilon=epsilon_after(len(rounds)),
        rdp=None if any(one.copies > 1 for one in rounds) else compute_epsilon(rounds, delta, "rdp"),
        course=tuple((stop, epsilon_after(stop)) for stop in stops),
        budget=budget,
        fitting_rounds=fitting[0] if fitting else None,
        fitting_steps=fitting[1] if fitting else None,
        epsilon_alone=compute_epsilon_alone(rounds, delta, accountant) if any_shared(rounds) else None,
    )


def _fitting(rounds: list[Entry], budget: float, delta: float, accountant: str) -> tuple[int, int]:
    """Whole rounds within the budget, and steps of the next one: what a client's ledger would allow."""
    whole = rounds_that_fit(rounds, budget, delta, accountant=accountant)
    if whole == len(rounds):
        return whole, 0
    after = rounds[whole]
    steps = steps_that_fit(
        after.sample_rate,
        after.noise_multiplier,
        after.steps,
        budget,
        delta,
        spent=rounds[:whole],
        accountant=accountant,
        shares=after.shares,
        copies=after.copies,
    )
    return whole, steps


def print_plan(report: PlanReport) -> None:
    """Print it for people: the plan, then what it costs on the way."""
    columns: tuple[str, ...] = ("rounds", "batch size", "sample rate", "steps a round", "noise multiplier")
    rows = [_cells(phase) for phase in report.plan.phases]
    if report.epsilon_alone is not None:
        columns = (*columns, "shares", "clients of a person")
        rows = [
            (*row, str(phase.shares), str(phase.copies))
            for row, phase in zip(rows, report.plan.phases, strict=True)
        ]
    print_table("The plan, at one client", columns, rows)
    print()
    course = [(str(number), rounded_up(epsilon)) for number, epsilon in report.course]
    title = f"Epsilon at delta {report.delta:g}, by {report.accountant}"
    print_table(title, ("after round", "epsilon"), course)
    if not report.upper_bound:
        print(f"({report.accountant} gives no proven upper bound: it may not hold a client's budget)")
    if report.accountant != "rdp" and report.rdp is not None:
        print(f"(by rdp, a quicker and looser bound: {rounded_up(report.rdp)})")
    if report.epsilon_alone is not None:
        print(f"\n{_alone(report)}")
    if report.budget is not None:
        print(f"\n{_verdict(report)}")
    if len({(phase.sample_rate, phase.noise_multiplier) for phase in report.plan.phases}) > 1:
        print(
            "\nSample rate or noise changes on the way: epsilon holds if that is settled beforehand."
            "\nClients of a federation take part in it only with vary-mechanism (docs/privacy.md)."
        )


def _alone(report: PlanReport) -> str:
    holds = alone_words(report.epsilon_alone)
    useless = f" (infinite, or above {BEYOND_USE:g})" if holds == "none" else ""
    return (
        "That holds against all who see no more than sums of clients. If this assumption fails, a client's\n"
        f"own share of the noise is all that protects, and epsilon is {holds}{useless}."
    )


def _cells(phase: Phase) -> tuple[str, ...]:
    noise = f"{phase.noise_multiplier:g}"
    return (str(phase.rounds), str(phase.batch_size), f"{phase.sample_rate:.6g}", str(phase.steps), noise)


def _verdict(report: PlanReport) -> str:
    total = sum(phase.rounds for phase in report.plan.phases)
    if report.fitting_rounds == total:
        return f"Within the budget of epsilon {report.budget:g}."
    return (
        f"A budget of epsilon {report.budget:g} is spent after {report.fitting_rounds} of {total} rounds "
        f"and {counted(report.fitting_steps or 0, 'step')} of the next."
    )
