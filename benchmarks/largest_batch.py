"""The largest batch that fits a memory, for each engine.

    python -m benchmarks.largest_batch --model vgg19 --memory-gib 4

Each batch is tried in a process of its own, two engines at a time. What counts is what
benchmarks/memory.py sees: the most that the first step uses, setting up and measurement of kernels
included, over what was in use before, when the code, the model and its inputs were there.
"""

import argparse
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial

from benchmarks.markdown import table
from benchmarks.measure import Setting
from benchmarks.models import MODELS
from benchmarks.options import Report, common_parser, publish, say, some_of
from benchmarks.processes import Ended, remote
from benchmarks.steps import ENGINES

GIB, MIB = 2**30, 2**20
COMPARED = ("sgd", "fl-dp-mixed", "opacus-hooks", "opacus-ghost", "vmap")
REFERENCE = "opacus-hooks"
_START, _GROWTH = 8, 4  # first batch; the most that the next may be larger
_AT_A_TIME = 2  # memory is counted, not time: they may share the machine
_CAREFUL = 0.96  # go so far towards where the line meets the limit: what is too large is slow to try
_CLOSE = 1.1  # a batch this much larger is known not to fit


@dataclass(frozen=True, slots=True)
class _Trial:
    batch: int
    peak_bytes: float


@dataclass(frozen=True, slots=True)
class Largest:
    """batch: the largest that was seen to fit, 0 if one example does not. too_large: did not fit."""

    batch: int
    peak_bytes: float
    too_large: int


def largest_batch(peak_of: Callable[[int], float], memory_bytes: float) -> Largest:
    """Search by straight lines: memory grows about as fast as the batch, from a constant.

    peak_of: batch -> peak bytes, infinite where there is not enough for it to run.
    """
    fits = before = _Trial(0, 0.0)
    too_large: _Trial | None = None
    while (batch := _next(before, fits, too_large, memory_bytes)) is not None:
        trial = _Trial(batch, peak_of(batch))
        if trial.peak_bytes <= memory_bytes:
            before, fits = fits, trial
        else:
            too_large = trial
    assert too_large is not None
    return Largest(fits.batch, fits.peak_bytes, too_large.batch)


def _next(before: _Trial, fits: _Trial, too_large: _Trial | None, memory_bytes: float) -> int | None:
    """The batch to try, or None when what fits and what does not are close.

    before, fits: the last two that fit, with no batch and no bytes where there was none.
    """
    batch, free = fits.batch, memory_bytes - fits.peak_bytes
    least = max(batch + 1, int(_CLOSE * batch))
    if too_large is None and batch == 0:
        return _START
    if too_large is None:
        more = min(_CAREFUL * free / _slope(before, fits), (_GROWTH - 1) * batch)
        return max(batch + int(more), least)
    if too_large.batch <= least:
        return None
    a_quarter_of_the_way = batch + (too_large.batch - batch) // 4
    return max(batch + int(_CAREFUL * free / _slope(fits, too_large)), a_quarter_of_the_way, least)


def _slope(one: _Trial, other: _Trial) -> float:
    """Bytes for each further example, one at least."""
    return max((other.peak_bytes - one.peak_bytes) / (other.batch - one.batch), 1.0)


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser().parse_args(arguments)
    publish(report_of(search(options), options), options)


def parser() -> argparse.ArgumentParser:
    parser = common_parser("benchmarks.largest_batch", __doc__)
    parser.add_argument("--model", choices=MODELS, default="vgg19")
    parser.add_argument("--memory-gib", type=float, default=4.0)
    parser.add_argument("--engines", type=some_of(ENGINES), default=list(COMPARED), metavar="A,B")
    return parser


def search(options: argparse.Namespace) -> dict[str, Largest | str]:
    """Engine -> what was found, or why nothing was."""
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        seen = pool.map(partial(_search, options), options.engines)
        return dict(zip(options.engines, seen, strict=True))


def report_of(found: Mapping[str, Largest | str], options: argparse.Namespace) -> Report:
    rows = [(engine, *_cells(seen, found.get(REFERENCE))) for engine, seen in found.items()]
    headings = ("engine", "largest batch", f"/ {REFERENCE}", "peak MiB", "too large")
    reasons = "\n".join(f"- {e}: {seen}" for e, seen in found.items() if isinstance(seen, str))
    data = {e: seen if isinstance(seen, str) else asdict(seen) for e, seen in found.items()}
    title = f"Largest batch of {options.model} in {options.memory_gib:g} GiB:"
    parts = [title, table(headings, rows, left=1), reasons]
    return Report("\n\n".join(part for part in parts if part), data)


def _search(options: argparse.Namespace, engine: str) -> Largest | str:
    def peak_of(batch: int) -> float:
        peak = _peak(Setting(options.model, engine, batch, options.device, options.dtype), options.limit)
        say(f"{options.model}: {engine}, batch {batch}: {peak / MIB:.0f} MiB")
        return peak

    try:
        return largest_batch(peak_of, options.memory_gib * GIB)
    except Ended as ended:
        return f"{ended.status}: {ended.reason}"


def _peak(setting: Setting, limit: float) -> float:
    """Bytes; infinite for want of memory. Raises `Ended` where an engine ends for another reason."""
    try:
        with remote(setting, limit) as process:
            return process.first_step().peak_bytes
    except Ended as ended:
        if ended.status in ("memory", "killed"):
            return math.inf
        raise


def over(seen: Largest | str | None, reference: Largest | str | None) -> float | None:
    """How many times the reference's batch; None where one of the two is not known."""
    if isinstance(seen, Largest) and isinstance(reference, Largest) and reference.batch > 0:
        return seen.batch / reference.batch
    return None


def _cells(seen: Largest | str, reference: Largest | str | None) -> tuple[str, ...]:
    if isinstance(seen, str):
        return (seen.partition(":")[0],)
    ratio = over(seen, reference)
    return (
        str(seen.batch),
        "" if ratio is None else f"{ratio:.1f}",
        f"{seen.peak_bytes / MIB:.0f}",
        str(seen.too_large),
    )


if __name__ == "__main__":
    main()
