"""All engines on one model, side by side: a few processes of each, and a row of numbers for each."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from benchmarks.measure import Cost, Setting
from benchmarks.processes import Ended, remote
from benchmarks.summary import Measurement, Row, row_of
from benchmarks.turns import Entry, Turn, take_turns

Say = Callable[[str], None]


@dataclass(slots=True)
class Seen:
    """What is known of one engine. start_seconds: until its first step was done."""

    measurements: list[Measurement] = field(default_factory=list)
    start_seconds: float = 0.0
    ended: Ended | None = None


def compare(
    settings: Sequence[Setting], repeats: int, seconds: float, limit: float, say: Say
) -> dict[str, Seen]:
    """Engine -> what was seen, in `repeats` processes of each, plain SGD the first of `settings`.

    seconds: for all of it, about. An engine whose start took more than twice its share of a repeat is
    not started again, one that ends is not asked again. limit: seconds that one answer of a process
    may take.
    """
    seen = {setting.engine: Seen() for setting in settings}
    most = 2 * seconds / repeats / len(settings)
    for repeat in range(repeats):
        may_start = {e for e, s in seen.items() if s.ended is None and s.start_seconds <= most}
        wanted = [setting for setting in settings[1:] if setting.engine in may_start]
        if repeat > 0 and not wanted:
            break
        try:
            _repeat(settings[0], wanted, seen, seconds / repeats, limit)
        except Ended as ended:  # plain SGD: there is nothing to compare with
            return {engine: Seen(ended=ended) for engine in seen}
        for setting in wanted:
            say(f"{setting.model}, repeat {repeat + 1}: {setting.engine} {_in_words(seen[setting.engine])}")
    return seen


def _repeat(
    baseline: Setting, wanted: Sequence[Setting], seen: Mapping[str, Seen], seconds: float, limit: float
) -> None:
    """One process of each engine, all alive together; what they did is added to `seen`."""
    end = time.perf_counter() + seconds
    with ExitStack() as processes:
        sgd = processes.enter_context(remote(baseline, limit))
        first = sgd.first_step()
        started = [_start(setting, processes, seen[setting.engine], limit) for setting in wanted]
        running = [engine for engine in started if engine is not None]
        for_turns = max(end - time.perf_counter(), seconds / 2)  # where the first steps took long
        take_turns([engine.entry for engine in running], sgd, for_turns)
        last = sgd.turn()
    turns = [Turn(last, last)]
    for engine in running:
        engine.finish(first)
        turns += [Turn(turn.baseline, turn.baseline) for turn in engine.entry.turns]
    seen[baseline.engine].measurements.append(Measurement(first, first, tuple(turns)))


@dataclass(frozen=True, slots=True)
class _Running:
    seen: Seen
    first: Cost
    entry: Entry

    def finish(self, baseline_first: Cost) -> None:
        self.seen.ended = self.entry.ended
        self.seen.measurements.append(Measurement(self.first, baseline_first, tuple(self.entry.turns)))


def _start(setting: Setting, processes: ExitStack, seen: Seen, limit: float) -> _Running | None:
    """None if the engine ended, which is noted."""
    start = time.perf_counter()
    try:
        process = processes.enter_context(remote(setting, limit))
        first = process.first_step()
    except Ended as ended:
        seen.ended = ended
        return None
    seen.start_seconds = time.perf_counter() - start
    return _Running(seen, first, Entry(process, spent=seen.start_seconds))


def _in_words(seen: Seen) -> str:
    if seen.ended is not None:
        return seen.ended.status
    last = seen.measurements[-1]
    return f"{1e3 * last.step_seconds:.0f} ms, {last.step_ratio:.2f} in {len(last.turns)} turns"


def rows_of(model: str, batch: int, seen: Mapping[str, Seen]) -> list[Row]:
    return [row_of(model, engine, batch, s.measurements, s.ended) for engine, s in seen.items()]
