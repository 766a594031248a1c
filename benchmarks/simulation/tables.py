"""What was measured, in tables, each empty where there is nothing to tell."""

from collections.abc import Sequence

from benchmarks.markdown import table
from benchmarks.simulation.contenders import Load
from benchmarks.simulation.outcomes import Outcome
from benchmarks.simulation.targets import (
    driver_gib,
    ms_a_client,
    number,
    rounds_a_minute,
    start_seconds,
    training_percent,
)

_COMMON = ("CPU s a round", "start s", "1st round s", "others %")


def table_without_training(outcomes: Sequence[Outcome]) -> str:
    """A line for each load and contender."""
    headings = ("clients", "model MB", "engine", "ms a client", "driver GiB", *_COMMON)
    rows = [
        (str(load.clients), f"{load.model_bytes / 1e6:g}", outcome.case.contender, *_figures(outcome))
        for outcome in outcomes
        if isinstance(load := outcome.case.task, Load)
    ]
    return table(headings, rows, left=3) if rows else ""


def _figures(outcome: Outcome) -> tuple[str, ...]:
    if not outcome.seen:
        return _word(outcome)
    return number(ms_a_client(outcome)), number(driver_gib(outcome)), *_common(outcome)


def table_of_training(outcomes: Sequence[Outcome]) -> str:
    """A line for each federation and contender. from, to: the shortest and the longest round."""
    headings = ("federation", "engine", "rounds a minute", "s a round", "from", "to", "training %", *_COMMON)
    rows = [
        (outcome.case.task, outcome.case.contender, *_round_figures(outcome))
        for outcome in outcomes
        if isinstance(outcome.case.task, str)
    ]
    return table(headings, rows, left=2) if rows else ""


def _round_figures(outcome: Outcome) -> tuple[str, ...]:
    if not outcome.seen:
        return _word(outcome)
    seconds = outcome.round_seconds
    times = (outcome.round, min(seconds), max(seconds))
    training = number(training_percent(outcome))
    return number(rounds_a_minute(outcome)), *(f"{s:.2f}" for s in times), training, *_common(outcome)


def _common(outcome: Outcome) -> tuple[str, ...]:
    others = outcome.median(lambda run: run.other_share)
    return (
        number(outcome.median(lambda run: run.cpu_seconds)),
        number(start_seconds(outcome)),
        number(outcome.median(lambda run: run.round_seconds[0])),
        number(None if others is None else 100 * others),
    )


def table_of_growth(outcomes: Sequence[Outcome]) -> str:
    """From the fewest to the most clients: how many times as many, as long a round, as large a driver."""
    groups: dict[tuple[str, int], list[Outcome]] = {}
    for outcome in outcomes:
        if isinstance(load := outcome.case.task, Load) and outcome.seen:
            groups.setdefault((outcome.case.contender, load.model_bytes), []).append(outcome)
    rows = [
        (contender, f"{size / 1e6:g}", *_growth(group))
        for (contender, size), group in groups.items()
        if len(group) > 1
    ]
    headings = ("engine", "model MB", "clients", "times the clients", "a round", "the driver", "")
    return table(headings, rows, left=1) if rows else ""


def _growth(outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    few, many = min(outcomes, key=_clients), max(outcomes, key=_clients)
    clients, time = _clients(many) / _clients(few), many.round / few.round
    memory = (driver_gib(many) or 0) / (driver_gib(few) or 1)
    linear = "linear or better" if max(time, memory) <= clients else "worse than linear"
    return (f"{_clients(few)} to {_clients(many)}", number(clients), number(time), number(memory), linear)


def _clients(outcome: Outcome) -> int:
    assert isinstance(outcome.case.task, Load)
    return outcome.case.task.clients


def reasons(outcomes: Sequence[Outcome]) -> str:
    """A line for each contender that has no figures, or fewer than asked for."""
    return "\n".join(f"- {o.case}: {o.ended.word}: {o.ended.reason}" for o in outcomes if o.ended)


def _word(outcome: Outcome) -> tuple[str, ...]:
    return (outcome.ended.word if outcome.ended else "",)
