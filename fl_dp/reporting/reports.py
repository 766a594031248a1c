"""The formats of rounds.jsonl and summary.json: what is reported about a round and about a run.

A client's epsilon is a total over everything that its ledger shows, earlier runs included; that is its site's
claim. The federation's is of this run alone, from the rounds that the server asked for (`this_run`). The
accountant stands beside each: a client's `accountant`, the federation's `accountants`.

The annotations are also the schema of the files: `run_files` reads nothing else.
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cache, cached_property, lru_cache
from operator import attrgetter
from typing import Annotated, Any, ClassVar, Literal

from fl_dp.accounting.cost import Alone, Charges, Cost, Epsilon
from fl_dp.records import STEADY_ROWS, ClientStatus, Entry
from fl_dp.schema import EXACT, Count, Read

RunStatus = Literal["completed", "budget-exhausted", "failed"]
OVER: tuple[RunStatus, ...] = ("completed", "budget-exhausted")  # statuses of runs with nothing left to do
INTERRUPTED = "interrupted"  # the reason of a failed run that was ended from outside, by Ctrl-C or a signal
RUN_EPSILON_SPENT = "One more step would cost a client more than the run's epsilon."  # of "budget-exhausted"

NOT_PRIVATE = "NOT PRIVATE"  # marks everything that comes from a run without privacy

# If the assumption behind secure sums fails, an epsilon above this promises nothing useful: "none" is
# shown.
BEYOND_USE = 20.0

# A model's guarantee, for the model card and the page of a run.
PROMISE = (
    "Differential privacy, add or remove one record at one client: any conclusion from the model, and from "
    "everything that was sent in training, is at most e^epsilon times as likely, plus delta, with the "
    "record as without it, and the other way round. Several records of one person at a client are "
    "protected less: k of them with k times epsilon and a larger delta. Conclusions about people in "
    "general are not covered."
)
PROMISE_OF_PERSONS = (
    "Differential privacy, add or remove one person with all records at one client: any conclusion from "
    "the model, and from everything that was sent in training, is at most e^epsilon times as likely, plus "
    "delta, with the person as without, and the other way round. Conclusions about people in general are "
    "not covered."
)
WHERE = " Assumptions and theorems: docs/privacy.md and docs/persons.md of fl_dp's documentation."
NO_PROMISE = (
    "None: NOT PRIVATE. The model was trained without protection; single records may be found out from it."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FederationBudget:
    """The clients that have paid for this run together.

    largest, median, least: of the clients' epsilons. accountants: those that computed them, sorted.
    arithmetic: of this run's rounds. rounds_ahead: rounds still to come. running_out: the clients whose
    budgets end before the rounds that they are expected in, sorted. unit: "record" or "person", whom the
    epsilons protect. epsilon_alone: as the report's epsilon, if the assumption behind secure sums fails;
    None, and not written, if no client's data were in such sums.
    """

    largest: Epsilon
    median: Epsilon
    least: Epsilon
    accountants: tuple[str, ...]
    rounds_ahead: Count = 0
    running_out: tuple[str, ...] = ()
    arithmetic: str = STEADY_ROWS
    unit: str = "record"
    epsilon_alone: Alone = None


def _reported(found: Any) -> tuple[tuple[str, Any], ...]:
    if not isinstance(found, dict):
        raise ValueError("no table of numbers")
    for one in found.values():
        if isinstance(one, dict | list) or (type(one) is int and abs(one) >= EXACT):
            raise ValueError("no table of numbers")
    return tuple(found.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientReport(Cost):
    """One client, after a round or at the end: the cost of all runs that its ledger shows, and what else.

    steps: in charges, which hold all that it has spent, or may have. delta, accountant: of the epsilons;
    budget: the most that its data may spend. arithmetic: of all these steps, one of `records.ARITHMETICS`.
    sample_rate, noise_multiplier: of this run's rounds; None if the client has no part in them, and without
    privacy. rounds_left: in how many of the planned rounds that were not run it could take part, the last one
    perhaps shortened. status: of the last round; reason: why it declined, failed or cannot take part; else
    empty. this_run: what it has paid, or may have, for this run: steps in its ledger that the server asked
    for, whatever the client claims about its past; None if that is all of its cost.

    In rounds.jsonl alone: reported: the numbers of its update of this round that are shown (`LocalUpdate`),
    by name. scaled: the factor applied to its update; below 1 if it was longer than an honest one can be.
    shares: of this round's steps, see `Entry`.

    In summary.json alone: rounds: rounds of this run whose update was accepted. rounds_beyond: how many
    rounds of another run like this one it could take part in, after those that are left. retired: accounts
    that were retired in its ledger; their spending is not in `epsilon`. public_size: its declared number of
    records or persons. before: what its ledger showed when it first registered. budget_alone: the limit for
    epsilon_alone; None if there is none.
    """

    accountant: str
    steps: Count
    rounds_left: Count
    status: ClientStatus
    delta: float
    budget: float
    reason: str = ""
    arithmetic: str = STEADY_ROWS
    sample_rate: float | None = None
    noise_multiplier: float | None = None
    this_run: Cost | None = None
    reported: Annotated[tuple[tuple[str, Any], ...], Read(_reported)] = ()
    scaled: float = 1.0
    shares: Count = 1
    rounds: Count = 0
    rounds_beyond: Count = 0
    retired: Count = 0
    public_size: Count = 0
    before: Charges = ()
    budget_alone: float | None = None

    @property
    def cost(self) -> Cost:
        """What this run has cost it."""
        return self.this_run or self


_IN_ROUNDS = ("reported", "scaled", "shares")
_AT_THE_END = ("rounds", "rounds_beyond", "retired", "public_size", "before", "budget_alone")


@dataclass(frozen=True, slots=True)
class OpenedSum:
    """A round's secure sum: number of clients, number of shares that make up its noise, and whether masks hid
    its parts. A simulation adds the parts up in the clear, with the same shares.
    """

    clients: Count
    shares: Count
    masked: bool


@dataclass(frozen=True, slots=True)
class Estimate:
    """A metric from the sites' own test records, and the ends of its interval; None: too few records."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TestAccount(Cost):
    """What a site's test records have cost, or may have, at delta, out of budget; without an account it has
    only status and reason. unheard: of how many evaluations since it has not said whether it paid; they are
    in charges and epsilon, which then are upper bounds. A site that has shown nothing then counts with its
    budget. epsilon_alone: where its account holds shares of secure sums, of fl_dp 1.0.
    """

    __test__: ClassVar = False  # for pytest

    status: str = ""
    reason: str = ""
    charges: Charges = ()
    epsilon: Epsilon = 0.0
    delta: float = 0.0
    budget: float = 0.0
    accountant: str = ""
    unheard: Count = 0

    @property
    def is_there(self) -> bool:
        """Whether anything is said of an account."""
        return self.status == "evaluated" or self != TestAccount(status=self.status, reason=self.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteMetrics:
    """A round's `site_metrics`, or without metrics a summary's `test_accounts`.

    epsilon, delta, epsilon_alone: the largest of any site. outcomes: as in the `Summary`, of the sites'
    noised counts; not written without any.
    """

    epsilon: Epsilon
    delta: float
    sites: Mapping[str, TestAccount]
    epsilon_alone: Alone = None
    metrics: Mapping[str, Estimate] = field(default_factory=dict)
    outcomes: Mapping[str, object] = field(default_factory=dict)


class _OfClients:
    """What a report of a round and a summary have in common."""

    __slots__ = ()

    clients: Mapping[str, ClientReport]

    @property
    def counted(self) -> dict[str, ClientReport]:
        """The clients, by name, that the federation's figures cover: those that have paid for this run."""
        return {name: one for name, one in self.clients.items() if one.cost.charges}


@dataclass(frozen=True, kw_only=True)
class RoundReport(_OfClients):
    """One line of rounds.jsonl.

    epsilon, delta: the federation's: the largest that this run has cost one of its clients (their data are
    disjoint). federation: its clients' budgets.
    private: whether the run is; if not, epsilon is infinite, whatever the clients' are.
    noise_multiplier: the least that a client of this round was asked for; None without privacy, and if none
    was asked.
    loss, accuracy, metrics: of the global model on the server's test data: the mean of the task's loss, the
    share of right answers if the task has it, and all its metrics, by name. None: not measured, or not
    defined on these data.
    seconds: wall time, including the wait for clients.
    lost: why the global model stayed the same although clients trained and paid; else empty. lost_rounds: so
    far, including this one. secure_sum: an `OpenedSum`; None, and not written, if there is none.
    site_metrics: of the global model on the sites' own test records, a `SiteMetrics`; None, and not written,
    if they were not due.
    """

    round: Count
    private: bool
    epsilon: Epsilon
    delta: float
    federation: FederationBudget
    noise_multiplier: float | None
    clients: Mapping[str, ClientReport]
    loss: float | None
    accuracy: float | None
    seconds: float
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    lost: str = ""
    lost_rounds: Count = 0
    secure_sum: OpenedSum | None = None
    site_metrics: SiteMetrics | None = None

    def to_dict(self) -> dict[str, Any]:
        return _line(self, _AT_THE_END)

    @cached_property
    def line(self) -> str:
        """As in rounds.jsonl, without the line end."""
        return dumps(self.to_dict())


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary(_OfClients):
    """summary.json. `rounds` is the number of rounds run, `lost_rounds` of them without a new model.

    `reason` says why the status is not "completed".
    model: "last", "average", or "best" if it was chosen on the server's validation half; model_round: the
    round that it comes from, 0 for the start. accuracy, loss, metrics: of it, on the server's test data or
    their other half.
    private, epsilon, delta, federation: as in the RoundReport of the last round; planned_epsilon: if all
    planned rounds are run. All of these are None without clients.
    run: its name in the ledgers. started, ended: UTC, ISO 8601; for a resumed run the first start.
    max_grad_norm: the clipping bound. versions: of the software that computed, by name. digests: SHA-256 of
    the model's weights (`weights_digest`), of the file config.toml and of fl_dp's own code, by name. task:
    the identity of the task's code, empty if all of it is built in. suppressed_below: classes and subgroups
    with fewer test examples have no metrics of their own.
    masked: whether masks hid the parts of its secure sums, for all that were opened; None, and not written,
    if there were none. constant: loss and metrics of the best constant prediction, by name; empty,
    and not written, if it is not known. outcomes: what the page draws of the model's answers, as
    `tasks/outcomes.py` says; empty, and not written, without classes. test_accounts: the `site_metrics` at
    the end, without metrics; None, and not written, if nobody paid.
    """

    status: RunStatus
    private: bool
    rounds: Count
    epsilon: Alone
    delta: float | None
    federation: FederationBudget | None
    accuracy: float | None
    loss: float | None
    seconds: float
    clients: Mapping[str, ClientReport]
    reason: str = ""
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    lost_rounds: Count = 0
    model: str = "last"
    model_round: Count = 0
    planned_epsilon: float | None = None
    run: str = ""
    started: str = ""
    ended: str = ""
    max_grad_norm: float | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)
    task: str = ""
    suppressed_below: Count = 0
    masked: bool | None = None
    constant: Mapping[str, float | None] = field(default_factory=dict)
    outcomes: Mapping[str, object] = field(default_factory=dict)
    test_accounts: SiteMetrics | None = None

    def to_dict(self) -> dict[str, Any]:
        return _line(self, _IN_ROUNDS)


# Keys that only some runs and clients have, with the default for those that are not written.
_OF_SOME: dict[str, Any] = {
    "shares": 1,
    "epsilon_alone": None,
    "budget_alone": None,
    "claimed_epsilon": None,
    "planned_epsilon": None,
    "secure_sum": None,
    "masked": None,
    "this_run": None,
    "constant": {},
    "site_metrics": None,
    "outcomes": {},
    "test_accounts": None,
    "unheard": 0,
}


def _line(record: Any, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """Like `asdict`, whose deep copies would take a hundred milliseconds for a thousand clients."""
    line = _shallow(record)
    for name, usual in _OF_SOME.items():
        if line.get(name, usual) == usual:
            line.pop(name, None)
    for name in without:
        line.pop(name, None)
    for name, encoded in _ENCODED.items():
        if line.get(name) is not None:
            line[name] = encoded(line[name])
    if "clients" in line:
        line["clients"] = {name: _line(one, without) for name, one in record.clients.items()}
    return line


def _site_metrics(record: SiteMetrics) -> dict[str, Any]:
    line = _line(record)
    line["metrics"] = {name: asdict(one) for name, one in record.metrics.items()}
    line["sites"] = {
        name: _line(one) if one.is_there else {"status": one.status, "reason": one.reason}
        for name, one in record.sites.items()
    }
    return line


@lru_cache(maxsize=4096)
def _charges(entries: tuple[Entry, ...]) -> list[dict[str, Any]]:
    """Cached: most clients of a round are alike."""
    return [entry.to_dict() for entry in entries]


_ENCODED: dict[str, Callable[[Any], Any]] = {
    "federation": _line,
    "secure_sum": asdict,
    "this_run": _line,
    "site_metrics": _site_metrics,
    "test_accounts": _site_metrics,
    "charges": _charges,
    "before": _charges,
    "reported": dict,
}


def _shallow(record: Any) -> dict[str, Any]:
    kind: Any = type(record)
    names, values_of = _fields_of(kind)
    return dict(zip(names, values_of(record), strict=True))


@cache
def _fields_of(kind: Any) -> tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]]]:
    names = tuple(one.name for one in fields(kind))
    return names, attrgetter(*names)


def of_one_class(metric: str) -> bool:
    """Whether it is a metric of a single class or subgroup, NAME[LABEL]."""
    return metric.endswith("]")


def strict_json(value: Any) -> Any:
    """`value` with every NaN and infinity replaced by None: JSON has neither."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: strict_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [strict_json(item) for item in value]
    return value


def dumps(value: Mapping[str, Any], indent: int | None = None) -> str:
    """As JSON, in which NaN and infinity are null."""
    try:
        return json.dumps(value, allow_nan=False, indent=indent)
    except ValueError:  # a number that JSON does not have; searching every report first takes longer
        return json.dumps(strict_json(value), allow_nan=False, indent=indent)
