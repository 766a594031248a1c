"""What the console shows of a round: one line, with epsilons in readable form."""

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
from fl_dp.reporting.wording import folded, packed

_LEAST_POWER = -5  # smallest power of ten of a last digit that is written out
_MOST_POWER = 15  # largest power of ten of a first digit that is written out
_SITE_METRICS = ("auroc", "accuracy")  # the first of them is in a round's line
_MOST_NAME, _MOST_REASON = 24, 4096  # characters of a metric's name, and of a reason


class RoundLines:
    """The line of each round; before the first, once, what its epsilon means."""

    def __init__(self) -> None:
        self._said = ""

    def of(self, report: RoundReport, rounds: int) -> str:
        """As `round_line`, with the meaning of its epsilon unless that was already said."""
        meaning = epsilon_means(report.federation, report.delta) if report.private else ""
        lines = [] if meaning == self._said else folded(meaning)
        self._said = meaning
        return "\n".join([*lines, round_line(report, rounds)])


def epsilon_means(together: FederationBudget, delta: float) -> str:
    """Whom the epsilon protects, what it counts, its delta and accountant."""
    if not together.accountants:
        return "eps: nothing was spent, because no client has trained"
    alone = "" if together.epsilon_alone is None else "; alone: if the assumption behind secure sums fails"
    return (
        f"eps: the cost of this run for one {together.unit}, out of the client's budget; at delta {delta:g}, "
        f"by {', '.join(together.accountants)}, {assuming(together.arithmetic)}{alone}"
    )


def round_line(report: RoundReport, rounds: int) -> str:
    """The line of one round; what does not fit goes on further lines. rounds: planned."""
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
    """How many clients trained, and the count of every other status that occurred; of idle clients only those
    that could not be asked.
    """
    clients = report.clients.values()
    states = Counter(client.status for client in clients)
    told: dict[str, int] = {
        **{name: states[name] for name in CLIENT_STATUSES if name not in ("trained", "idle")},
        "left out": sum(client.status == "idle" and client.reason != "" for client in clients),
        "scaled down": sum(client.scaled < 1.0 for client in clients),
        "soon out of budget": len(report.federation.running_out),
    }
    others = (f", {name} {count:,}" for name, count in told.items() if count)
    return f"trained {states['trained']:,}{''.join(others)}"


def _evaluated(
    metrics: Mapping[str, float | None], accuracy: float | None, loss: float | None
) -> tuple[str, ...]:
    """The first of the task's metrics, or accuracy if there is none, and the loss; empty without a test."""
    if loss is None and accuracy is None and not metrics:
        return ()
    name, value = next(iter(metrics.items()), ("accuracy", accuracy))
    return f"{clean(name, _MOST_NAME)} {_short(value, '.3f')}", f"loss {_short(loss, '.2f')}"


def constant_words(summary: Summary) -> str:
    """What the best constant prediction reaches in the metric that stands beside it; empty if not known."""
    known = summary.constant
    first = {name: known[name] for name in summary.metrics if name in known}
    return ", ".join(_evaluated(first, None, known.get("loss")))


def _at_the_sites(report: RoundReport) -> tuple[str, ...]:
    """The first metric from the sites' own test records, with its interval, and what they have cost; empty
    if they were not due.
    """
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
    """The budget to compare the report's epsilon with: that of the client whose epsilon it is.

    Among equal epsilons, the one with the smallest budget.
    """
    clients = report.counted.values() or report.clients.values()
    return min(clients, key=lambda client: (-client.cost.epsilon, client.budget)).budget


def marked(text: str, *, private: bool) -> str:
    """`text`, with NOT PRIVATE before it unless the run is private."""
    return text if private else f"{NOT_PRIVATE}: {text}"


def rounded_up(epsilon: float | None) -> str:
    """Rounded up: the printed value is never below the computed one. None: not finite.

    Two decimals, and below 0.1 two digits: 1.84, 0.013, 0.0010, 2.5e-7.
    """
    if epsilon is None or epsilon == float("inf"):
        return "inf"
    # repr, not the binary value: 1.1 is then 1.10 and not 1.11, and reads back as 1.1
    exact = Decimal(repr(float(epsilon)))
    last = -2 if not exact else min(-2, exact.adjusted() - 1)  # the power of ten of the last digit
    if exact.adjusted() > _MOST_POWER:  # from a damaged file: it would have hundreds of digits
        last = exact.adjusted() - 1
    text = exact.quantize(Decimal(1).scaleb(last), ROUND_CEILING)
    return str(text) if _LEAST_POWER <= last < 0 else f"{text:.1e}"


def alone_words(epsilon: float | None) -> str:
    """An epsilon that holds if the assumption behind secure sums fails; "none" if it is of no use.

    None: not finite, as in JSON.
    """
    return "none" if epsilon is None or epsilon > BEYOND_USE else rounded_up(epsilon)


def times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _short(value: float | None, form: str) -> str:
    """In this format, if it has at most five digits before the point."""
    return _number(value, form if value is None or abs(value) < 1e5 else ".3g")


def _number(value: float | None, form: str) -> str:
    return "n/a" if value is None else format(value, form)
