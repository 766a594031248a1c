"""What the console shows of a round: one line, with epsilons in readable form.

It is made from the JSON of `reports`, so that a program that follows rounds.jsonl can print the same.
"""

from collections import Counter
from collections.abc import Mapping
from decimal import ROUND_CEILING, Decimal
from typing import Any

from fl_dp.clean_text import clean
from fl_dp.config.data import RECORD
from fl_dp.records import CLIENT_STATUSES
from fl_dp.reporting.refuted import arithmetic_words
from fl_dp.reporting.reports import (
    BEYOND_USE,
    NOT_PRIVATE,
    counted_clients,
    counts_this_run,
    epsilon_from_json,
    of_this_run,
)
from fl_dp.reporting.wording import folded, packed

_LEAST_POWER = -5  # smallest power of ten of a last digit that is written out
_MOST_POWER = 15  # largest power of ten of a first digit that is written out
SITE_METRICS = ("auroc", "accuracy")  # the first of them is in a round's line
_MOST_NAME = 24  # characters of a metric's name


class RoundLines:
    """The line of each round; before the first, once, what its epsilon means."""

    def __init__(self) -> None:
        self._said = ""

    def of(self, record: Mapping[str, Any], rounds: int, budget: float) -> str:
        """As `round_line`, with the meaning of its epsilon unless that was already said."""
        meaning = epsilon_means(record)
        lines = [] if meaning == self._said else folded(meaning)
        self._said = meaning
        return "\n".join([*lines, round_line(record, rounds=rounds, budget=budget)])


def epsilon_means(record: Mapping[str, Any]) -> str:
    """Whom the epsilon protects, what it counts, its delta and accountant; empty without privacy."""
    if not record["private"]:
        return ""
    together = record["federation"]
    if not together["accountants"]:
        return "eps: nothing was spent, because no client has trained"
    whose = f"one {together.get('unit', RECORD)}"  # older reports have none
    if (count := together.get("clients_per_person", 1)) > 1:
        whose = f"one person at up to {count} clients"
    what = f"the cost of this run for {whose}"
    if not counts_this_run(record):
        what = f"the cost of all runs in the clients' ledgers for {whose}"
    alone = "; alone: if the assumption behind secure sums fails" if "epsilon_alone" in together else ""
    return f"eps: {what}, out of the client's budget; {_conditions(record)}{alone}"


def _conditions(record: Mapping[str, Any]) -> str:
    by = ", ".join(record["federation"]["accountants"])
    arithmetic = arithmetic_words(record["federation"]["arithmetic"])
    return f"at delta {_number(record['delta'], 'g')}, by {by}, arithmetic {arithmetic}"


def round_line(record: Mapping[str, Any], *, rounds: int, budget: float) -> str:
    """The line of one round, `record` of rounds.jsonl; what does not fit goes on further lines.

    rounds: planned. budget: the run's epsilon, for records of an older fl_dp, which lack each client's
    budget.
    """
    parts = (
        f"round {record['round']}/{rounds}",
        privacy_words(record, budget),
        *_evaluated(record),
        *_at_the_sites(record),
        _counts(record),
        f"{record['seconds']:.1f} s",
    )
    why = record.get("lost")  # older reports have none
    lost = folded(f"  LOST, though paid for: {why}") if why else []
    return "\n".join([*packed(parts), *lost])


def _counts(record: Mapping[str, Any]) -> str:
    """How many clients trained, and the count of every other status that occurred."""
    states = Counter(client["status"] for client in record["clients"].values())
    scaled = sum(client.get("scaled", 1.0) < 1.0 for client in record["clients"].values())
    told: dict[str, int] = {
        **{name: states[name] for name in CLIENT_STATUSES if name not in ("trained", "idle")},
        "scaled down": scaled,
        "soon out of budget": len(record["federation"]["running_out"]),
    }
    others = (f", {name} {count:,}" for name, count in told.items() if count)
    return f"trained {states['trained']:,}{''.join(others)}"


def _evaluated(record: Mapping[str, Any]) -> tuple[str, ...]:
    """The first of the task's metrics, or accuracy if there is none, and the loss; empty without a test."""
    if record["loss"] is None and record.get("accuracy") is None and not record.get("metrics"):
        return ()
    name, value = next(iter(record.get("metrics", {}).items()), ("accuracy", record.get("accuracy")))
    return f"{clean(name, _MOST_NAME)} {_short(value, '.3f')}", f"loss {_short(record['loss'], '.2f')}"


def quality_words(record: Mapping[str, Any]) -> str:
    """First metric and loss of a round or summary; empty if it was not evaluated."""
    return ", ".join(_evaluated(record))


def constant_words(summary: Mapping[str, Any]) -> str:
    """What the best constant prediction reaches in the metric that stands beside it; empty if not known."""
    known = summary.get("constant")  # older summaries have none
    if not known:
        return ""
    first = next((name for name in summary["metrics"] if name in known), "")
    return quality_words({"metrics": {first: known[first]} if first else {}, "loss": known.get("loss")})


def _at_the_sites(record: Mapping[str, Any]) -> tuple[str, ...]:
    """The first metric from the sites' own test records, with its interval, and what they have cost; empty
    if they were not due.
    """
    measured = record.get("site_metrics")
    if not measured:
        return ()
    alone = f", alone {alone_words(measured['epsilon_alone'])}" if "epsilon_alone" in measured else ""
    most = "at most " if any(one.get("unheard") for one in measured["sites"].values()) else ""
    cost = f"(test eps {most}{rounded_up(measured['epsilon'])}{alone})"
    found = ((name, measured["metrics"].get(name)) for name in SITE_METRICS)
    name, one = next(((name, one) for name, one in found if one and one["value"] is not None), ("", None))
    if one is None:
        return (f"sites' metrics n/a {cost}",)
    return (f"sites' {name} {one['value']:.3f}, {one['low']:.3f} to {one['high']:.3f} {cost}",)


def privacy_words(record: Mapping[str, Any], budget: float) -> str:
    """The epsilon in a round's line, and its budget; `epsilon_means` says what it means."""
    if not record["private"]:
        return f"{NOT_PRIVATE} (no epsilon holds)"
    alone = ""
    if "epsilon_alone" in record["federation"]:
        alone = f" (alone {alone_words(record['federation']['epsilon_alone'])})"
    return f"eps {rounded_up(record['epsilon'])}{alone} of {rounded_up(_allowed(record, budget))}"


def _allowed(record: Mapping[str, Any], budget: float) -> float:
    """The budget to compare the record's epsilon with: that of the client whose epsilon it is.

    Among equal epsilons, the one with the smallest budget. Where a person's epsilons at several clients are
    added up, so are the budgets of these clients.
    """
    clients = counted_clients(record).values()  # a forecast has none
    if not clients or any(client.get("budget") is None for client in clients):
        return budget
    most = sorted(
        clients, key=lambda client: (-epsilon_from_json(of_this_run(client)["epsilon"]), client["budget"])
    )
    return sum(float(client["budget"]) for client in most[: record["federation"]["clients_per_person"]])


def of_unit(report: Mapping[str, Any]) -> str:
    """Whom the epsilons protect, unless it is one record."""
    unit = (report.get("federation") or {}).get("unit", RECORD)  # older reports have none
    return "" if unit == RECORD else f" for one {unit}"


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
