"""What a sweep says: before it starts what it will do and cost, afterwards what a choice from it costs."""

from collections.abc import Callable, Iterator, Sequence

from fl_dp.errors import ConfigError
from fl_dp.launch.sweep.checking import CheckedRun
from fl_dp.launch.sweep.costs import RunCost, SweepCost, noise_for_all
from fl_dp.launch.sweep.plan import SweepPlan
from fl_dp.launch.sweep.results import Row
from fl_dp.launch.sweep.table import is_over
from fl_dp.reporting.console import rounded_up
from fl_dp.reporting.reports import NOT_PRIVATE, epsilon_from_json
from fl_dp.reporting.table import print_table
from fl_dp.reporting.wording import counted

Say = Callable[[str], None]
_SHOWN = 20  # runs of a table, at most; points of one cost are one line
_ON_PUBLIC_DATA = (
    "Choose settings on public data, where nobody's privacy is at stake: the same config with "
    'data = "digits".',
    "Or on synthetic records of the same form, with public = true in the sweep's file.",
)
_INSTEAD = "Or: " + " ".join(_ON_PUBLIC_DATA)


def announce(runs: Sequence[CheckedRun], plan: SweepPlan, cost: SweepCost, say: Say) -> None:
    """What will be done, on whose data, and what it costs."""
    points = counted(len({run.point for run in plan.runs}), "combination")
    seeds = counted(len({run.seed for run in plan.runs}), "seed")
    say(f"{counted(len(plan.runs), 'run')}: {points}, {seeds}; all clients are simulated")
    for data in dict.fromkeys(one.config.data for one in runs):
        say(f"data {data}: {_whose(plan)}")
    for note in dict.fromkeys(note for one in runs for note in one.notes):
        say(note)
    if blind := [one for one in runs if one.config.evaluate == "off"]:
        which = "these runs measure" if len(blind) == len(runs) else f"{len(blind)} of these runs measure"
        say(
            f'note: {which} nothing: evaluate = "off" leaves accuracy and loss empty, and nothing can be '
            'chosen by them. With test data at the server: evaluate = "server".'
        )
    _print_costs(runs, cost)
    if not cost.conflicts:
        say(_together(plan, cost))


def _whose(plan: SweepPlan) -> str:
    if plan.public:
        return "public or synthetic: each run is a trial, with a ledger of its own in its folder"
    return f"private: every run's updates are seen, and all runs pay in full from the ledger in {plan.ledger}"


def _print_costs(runs: Sequence[CheckedRun], cost: SweepCost) -> None:
    lines: dict[tuple[str, ...], list[str]] = {}
    for one, run in zip(runs, cost.runs, strict=True):
        key = (one.run.point.name, *_cells(one, run))
        lines.setdefault(key, []).append(str(one.run.seed))
    rows = [(key[0], ", ".join(seeds), *key[1:]) for key, seeds in lines.items()]
    columns = ("run", "seeds", "rounds", "steps", "noise", "epsilon", "of")
    title = "each run alone, at the client that it costs most" if cost.exactly else "each run alone, at most"
    print_table(title, columns, rows[:_SHOWN], left=("run", "seeds"))
    if len(rows) > _SHOWN:
        print(f"... and {len(rows) - _SHOWN} lines more")


def _cells(one: CheckedRun, run: RunCost) -> tuple[str, ...]:
    planned = one.config.rounds
    rounds = str(planned) if run.rounds >= planned else f"{run.rounds} of {planned}"
    if run.mechanism is None:
        return rounds, "0", "", rounded_up(0.0), f"{one.config.epsilon:g}"
    noise = f"{run.mechanism.noise_multiplier:g}" if run.mechanism.private else "none"
    of = f"{one.config.epsilon:g}" if run.mechanism.private else NOT_PRIVATE
    return rounds, str(run.mechanism.steps), noise, rounded_up(run.epsilon), of


def _together(plan: SweepPlan, cost: SweepCost) -> str:
    most = "" if cost.exactly else "at most "
    what = f"{most}epsilon {rounded_up(cost.epsilon)} at delta {cost.delta:g}"
    if plan.public:
        return f"all runs together: on private data these would be {what}{_open(plan)}"
    return f"all runs together: {what} for these data, what they had spent before included"


def check_affordable(runs: Sequence[CheckedRun], plan: SweepPlan, cost: SweepCost) -> None:
    """ConfigError where runs on private data would not be what they are asked to be; nothing has started."""
    _check_protected(runs, plan)
    if cost.conflicts:
        number, why = cost.conflicts[0]
        raise ConfigError(f"nothing was started: {runs[number].run.name} {why}. {_INSTEAD}")
    if plan.vary_mechanism and cost.before:
        raise ConfigError(
            f"vary-mechanism: the ledger in {plan.ledger} holds earlier rounds of these data, so that nobody "
            f"can say that rate and noise were fixed before any result was seen (docs/privacy.md). {_INSTEAD}"
        )
    if plan.public and (found := cost.problems):
        number, why = found[0]
        raise ConfigError(f"{runs[number].run.name}: {why}.")
    if not cost.problems:
        return
    number, why = cost.problems[0]
    more = f" (and {len(cost.problems) - 1} more)" if len(cost.problems) > 1 else ""
    raise ConfigError(
        f"nothing was started: {runs[number].run.name}{more}: {why}.\nData keep to one rate and noise, and "
        "to one budget over all runs (docs/privacy.md). What can be done:"
        + "".join(f"\n  - {way}" for way in _ways_out(runs, plan, cost))
    )


def _ways_out(runs: Sequence[CheckedRun], plan: SweepPlan, cost: SweepCost) -> Iterator[str]:
    """What whoever asked for the sweep may do instead, one thing each."""
    if noise := noise_for_all(runs, cost):
        yield (
            f"One noise for all runs, noise-multiplier = {noise:g}, keeps all of them within epsilon "
            f"{min(one.config.epsilon for one in runs):g}; then sweep what leaves rate and noise as they "
            "are, such as learning-rate."
        )
    if not plan.vary_mechanism:
        yield (
            "vary-mechanism = true in the sweep's file lets rate and noise vary, for data that nobody has "
            "seen a result of: docs/privacy.md says what is claimed then."
        )
    yield from _ON_PUBLIC_DATA


def _check_protected(runs: Sequence[CheckedRun], plan: SweepPlan) -> None:
    for one in runs:
        if not plan.public and not one.config.private:
            raise ConfigError(
                f'{one.run.name}: privacy = "off" on private data: no epsilon would hold for them any more. '
                f"{_INSTEAD}"
            )


def needs_ledger(runs: Sequence[CheckedRun]) -> ConfigError:
    private = next(one for one in runs if not one.public)
    name = private.config.task or private.config.data
    return ConfigError(
        f"{name} counts as private: every run's updates are seen, and each has to be paid for. Name the "
        f"lasting ledger of these data, --ledger DIR. {_INSTEAD}"
    )


def _open(plan: SweepPlan) -> str:
    """Said of a sum where some runs have no privacy: they are not in it."""
    if all(run.config.get("privacy") != "off" for run in plan.runs):
        return ""
    return ' without the runs of privacy = "off", and beside these no epsilon would hold'


def footer(plan: SweepPlan, rows: Sequence[Row], spent: float) -> str:
    """What must be said of a model that is chosen from these."""
    rule = (
        "Whoever chooses the best of these runs has looked at all of them: the epsilon of a chosen model is "
    )
    now = f"{rounded_up(spent)} at delta {plan.delta:g}"
    if plan.public:
        would = f"On private data it would be {now}{_open(plan)}; these are public."
        return f"{rule}that of the whole sweep. {would}"
    if is_over(rows):
        return f"{rule}that of all of them on these data, {now}."
    whole = max(epsilon_from_json(plan.epsilon), spent)
    return (
        f"{rule}that of the whole sweep as it was fixed, {rounded_up(whole)} at delta {plan.delta:g}; "
        f"{now} is spent so far."
    )


def result_line(row: Row) -> str:
    """ "completed: accuracy 0.873, epsilon 1.00"."""
    name, score = row.score
    reached = "" if score is None else f"{name} {score:.3f}, "
    spent = "" if row.epsilon is None else f"epsilon {rounded_up(row.epsilon)}"
    return f"{row.status}: {reached}{spent}".rstrip(", :")
