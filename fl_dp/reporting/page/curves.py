"""Tables of curves and confusion: on the server's test data, and on the sites' own test records."""

from dataclasses import dataclass

from fl_dp.reporting.page.facts import Outcomes, RunFacts
from fl_dp.reporting.page.intervals import Share
from fl_dp.reporting.page.outcomes import calibration, confusion, curve
from fl_dp.reporting.page.pieces import Table

_TOO_FEW = "too few records"


@dataclass(frozen=True, slots=True)
class Source:
    """key: the end of its figures' and tables' keys; on: what was answered, in words."""

    key: str
    on: str
    outcomes: Outcomes


def sources(run: RunFacts) -> tuple[Source, ...]:
    """The server's test data, and the sites' own; either may have nothing."""
    of_sites = run.site_metrics
    return (
        Source("server", run.tested, run.outcomes),
        Source(
            "sites",
            f"the sites' own test records after round {of_sites.number}" if of_sites else "",
            of_sites.outcomes if of_sites else Outcomes(),
        ),
    )


def curve_table(source: Source) -> Table:
    return Table(
        f"roc-{source.key}",
        f"ROC on {source.on}, with 95 % intervals",
        ("class", "score at least", *_interval("recall"), *_interval("false alarms")),
        tuple(
            (scores.of_class, _probability(one.least), *_shown(one.own), *_shown(one.others))
            for scores in source.outcomes.scores
            for one in curve(scores)
        ),
    )


def calibration_table(source: Source) -> Table:
    return Table(
        f"calibration-{source.key}",
        f"Calibration on {source.on}, with 95 % intervals",
        ("class", "score from", "score to", "score", "records", *_interval("share")),
        tuple(
            (scores.of_class, *map(_probability, (low, high, place)), _records(sum(counts)), *_shown(one))
            for scores in source.outcomes.scores
            for low, high, place, counts, one in zip(
                scores.ends, scores.ends[1:], scores.places, scores.counts, calibration(scores), strict=False
            )
        ),
    )  # fmt: skip


def confusion_table(source: Source) -> Table:
    """Records of each class by the class that was predicted, and the share that was right."""
    rows, names = confusion(source.outcomes), source.outcomes.classes
    return Table(
        f"confusion-{source.key}",
        f"Confusion on {source.on}: records, and the share that is right, with 95 % intervals",
        ("class", *(f"as {name}" for name in names if rows), *_interval("right")),
        tuple(
            (names[i], *(_records(records) for records, _ in row), *_shown(row[i][1]))
            for i, row in enumerate(rows)
        ),
    )


def _interval(name: str) -> tuple[str, str, str]:
    return name, f"{name} from", f"{name} to"


def _shown(found: Share) -> tuple[str, ...]:
    parts = (found.value, found.low, found.high)
    return tuple(_TOO_FEW if one is None else f"{one:.4f}" for one in parts)


def _probability(value: float) -> str:
    return f"{value:.3f}"


def _records(value: float) -> str:
    return f"{max(0.0, value):,.0f}"
