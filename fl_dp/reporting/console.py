"""The console's line for a round, and epsilons in readable form."""

import math
from collections import Counter
from collections.abc import Mapping
from decimal import ROUND_CEILING, Decimal

from fl_dp.clean_text import clean
from fl_dp.records import CLIENT_STATUSES, assuming
from fl_dp.reporting.reports import (
    BEYOND_USE,
    NOT_PRIVATE,
    FederationBudget,
    RoundReport,
    Summary,
)
from fl_dp.reporting.wording import folded, packed, some

_LEAST_POWER = -5  # smallest power of ten of a last digit that is written out
_MOST_POWER = 15  # largest power of ten of a first digit that is written out
_SITE_METRICS = ("auroc", "accuracy")  # the first of them is in a round's line
_MOST_NAME, _MOST_REASON = 24, 4096  # characters of a metric's name, and of a reason


class RoundLines:
    """The line of each round. The first one is preceded by what its epsilon means."""

    def __init__(self) -> None:
        self._said = ""

    def of(self, report: RoundReport, rounds: int) -> str:
        """As `round_line`, preceded by what epsilon means unless that was already said."""
        meaning = epsilon_means(report.federation, report.delta) if report.private else ""
        lines = [] if meaning == self._said else folded(meaning)
        self._said = meaning
        return "\n".join([*lines, round_line(report, rounds)])


def epsilon_means(together: FederationBudget, delta: float) -> str:
    """Whom the epsilon protects and what it counts, with its delta and accountant."""
    if not together.accountants:
        return "eps: nothing was spent, because no client has trained"
    alone = "" if together.epsilon_alone is None else "; alone: if the assumption behind secure sums fails"
    return (
        f"eps: the cost of this run for one {together.unit}, out of the client's budget; at delta {delta:g}, "
        f"by {', '.join(together.accountants)}, {assuming(together.arithmetic)}{alone}"
    )


def round_line(report: RoundReport, rounds: int) -> str:
    """The line of one round; parts that do not fit are on further lines. rounds: planned."""
    spent = f"{NOT_PRIVATE} (no epsilon holds)"
    if report.private:
        spent = privacy_words(report.epsilon, report.federation.epsilon_alone, _allowed(report))
    parts = (
        f"round {report.round}/{rounds}",
        spent,
        *_evaluated(report.metrics, report.accuracy, report.loss),
        *_at_the_sites(report),
        _counts(report),
        f"{report.seconds:.1f} s",
    )
    lost = folded(f"  LOST, though paid for: {clean(report.lost, _MOST_REASON)}") if report.lost else []
    return "\n".join([*packed(parts), *lost])


def _counts(report: RoundReport) -> str:
    """How many clients trained, and the count of each other status that occurred.

    Of the idle clients only those that could not be asked are counted.
    """
    clients = report.clients.values()
    states = Counter(client.status for client in clients)
    told: dict[str, int] = {
        **{name: states[name] for name in CLIENT_STATUSES if name not in ("trained", "idle")},
        "left out": sum(client.status == "idle" and client.reason != "" for client in clients),
        "scaled down": sum(client.scaled < 1.0 for client in clients),
    }
    others = [f", {name} {count:,}" for name, count in told.items() if count]
    if soon := report.federation.running_out:
        others.append(f", soon out of budget: {some([clean(name, _MOST_NAME) for name in soon], most=3)}")
    return f"trained {states['trained']:,}{''.join(others)}"


def _evaluated(
    metrics: Mapping[str, float | None], accuracy: float | None, loss: float | None
) -> tuple[str, ...]:
    """The task's first metric, or else the accuracy, and the loss; empty if nothing was tested."""
    if loss is None and accuracy is None and not metrics:
        return ()
    name, value = next(iter(metrics.items()), ("accuracy", accuracy))
    return f"{clean(name, _MOST_NAME)} {_short(value, '.3f')}", f"loss {_short(loss, '.2f')}"


def constant_words(summary: Summary) -> str:
    """Loss and first metric of the best constant prediction; empty if not known."""
    known = summary.constant
    first = {name: known[name] for name in summary.metrics if name in known}
    return ", ".join(_evaluated(first, None, known.get("loss")))


def _at_the_sites(report: RoundReport) -> tuple[str, ...]:
    """The first metric on the sites' own test records, its interval and its cost; empty if none was due."""
    measured = report.site_metrics
    if measured is None:
        return ()
    alone = "" if measured.epsilon_alone is None else f", alone {alone_words(measured.epsilon_alone)}"
    most = "at most " if any(one.unheard for one in measured.sites.values()) else ""
    cost = f"(test eps {most}{rounded_up(measured.epsilon)}{alone})"
    for name in _SITE_METRICS:
        one = measured.metrics.get(name)
        if one and one.value is not None:
            return (f"sites' {name} {one.value:.3f}, {one.low:.3f} to {one.high:.3f} {cost}",)
    return (f"sites' metrics n/a {cost}",)


def privacy_words(epsilon: float, alone: float | None, budget: float) -> str:
    """The epsilon in a round's line, and its budget; `epsilon_means` says what it means."""
    beside = "" if alone is None else f" (alone {alone_words(alone)})"
    return f"eps {rounded_up(epsilon)}{beside} of {rounded_up(budget)}"


def _allowed(report: RoundReport) -> float:
    """The budget of the client whose epsilon the report shows; the smallest budget among equal epsilons."""
    clients = report.counted.values() or report.clients.values()
    return min(clients, key=lambda client: (-client.cost.epsilon, client.budget)).budget


def marked(text: str, *, private: bool) -> str:
    """`text`, with NOT PRIVATE before it unless the run is private."""
    return text if private else f"{NOT_PRIVATE}: {text}"


def rounded_up(epsilon: float | None, decimals: int = 2) -> str:
    """An epsilon rounded up: the printed value is never below the computed one. None: infinite.

    With so many decimals, and two digits at least: 1.84, 0.013, 0.0010, 2.5e-7.
    """
    if epsilon is None or not math.isfinite(epsilon):
        return "inf" if epsilon is None else str(float(epsilon))
    # repr, not the binary value: 1.1 is then 1.10 and not 1.11, and reads back as 1.1
    exact = Decimal(repr(float(epsilon)))
    last = -decimals if not exact else min(-decimals, exact.adjusted() - 1)  # power of ten of the last digit
    if exact.adjusted() > _MOST_POWER:  # from a damaged file: it would have hundreds of digits
        last = exact.adjusted() - 1
    text = exact.quantize(Decimal(1).scaleb(last), ROUND_CEILING)
    return str(text) if min(_LEAST_POWER, -decimals) <= last < 0 else f"{text:.1e}"


def alone_words(epsilon: float | None) -> str:
    """The epsilon if the assumption behind secure sums fails; "none" if it is of no use. None: infinite."""
    return "none" if epsilon is None or epsilon > BEYOND_USE else rounded_up(epsilon)


def times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _short(value: float | None, form: str) -> str:
    """In this format, if it has at most five digits before the point."""
    return "n/a" if value is None else format(value, form if abs(value) < 1e5 else ".3g")
