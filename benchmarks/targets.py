"""What was measured beside what is to be reached."""

import statistics
from collections.abc import Callable, Mapping, Sequence

from benchmarks.largest_batch import Largest, over
from benchmarks.markdown import table
from benchmarks.summary import Numbers, Row

OURS, PEERS = "fl-dp-mixed", ("opacus-hooks", "opacus-ghost")


def table_of_targets(rows: Sequence[Row], batches: Mapping[str, Largest | str]) -> str:
    """Over the models that were measured; a line without numbers where they are not enough."""
    ours = {row.model: row.numbers for row in rows if row.engine == OURS and row.numbers is not None}
    times_larger = over(batches.get(OURS), batches.get("opacus-hooks"))
    lines = (
        ("step time over plain SGD, geometric mean", "<= 1.30", _over_models(ours, _mean, "step_ratio")),
        ("step time over plain SGD, worst model", "<= 1.60", _over_models(ours, max, "step_ratio")),
        ("peak memory over plain SGD, geometric mean", "<= 1.20", _over_models(ours, _mean, "peak_ratio")),
        ("the same, after the first step", "", _over_models(ours, _mean, "further_peak_ratio")),
        ("Opacus' better mode over this engine, geometric mean", ">= 2.5", _peers_over(ours, rows)),
        ("largest batch in 4 GiB, VGG-19, over Opacus hooks", ">= 18", times_larger),
        (
            "first step over a further one, worst model",
            "<= 10",
            _over_models(ours, max, "first_over_further"),
        ),
    )
    cells = [(what, target, "" if seen is None else f"{seen:.2f}") for what, target, seen in lines]
    return table((f"{len(ours)} models", "to reach", "seen"), cells, left=1)


def _over_models(
    ours: Mapping[str, Numbers], join: Callable[[Sequence[float]], float], field: str
) -> float | None:
    return join([getattr(numbers, field) for numbers in ours.values()]) if ours else None


def _mean(numbers: Sequence[float]) -> float:
    return statistics.geometric_mean(numbers)


def _peers_over(ours: Mapping[str, Numbers], rows: Sequence[Row]) -> float | None:
    """How many times as long a step of the faster peer takes, over the models that one of them can run."""
    peers: dict[str, float] = {}
    for row in rows:
        if row.engine in PEERS and row.numbers is not None:
            peers[row.model] = min(row.numbers.step_ratio, peers.get(row.model, row.numbers.step_ratio))
    times = [peers[model] / numbers.step_ratio for model, numbers in ours.items() if model in peers]
    return statistics.geometric_mean(times) if times else None
