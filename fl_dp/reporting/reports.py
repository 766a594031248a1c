"""The formats of rounds.jsonl and summary.json: what is reported about a round and about a run.

A client's epsilon is a total over everything that its ledger shows, earlier runs included; that is its site's
claim. The federation's is of this run alone, from the rounds that the server asked for (`RunCost`). The
accountant stands beside each: a client's `accountant`, the federation's `accountants`.

The annotations are also the schema of the files: `run_files` reads nothing else.
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cache, lru_cache
from operator import attrgetter
from typing import Annotated, Any, ClassVar, Literal

from fl_dp.records import STEADY_ROWS, ClientStatus, Entry, unknown_steps
from fl_dp.schema import Read

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

_MOST_MECHANISMS = 1000  # of one client


def _number(found: Any) -> float:
    if type(found) not in (int, float) or not 0 <= found < 1e300:
        raise ValueError("no number")
    return float(found)


def _epsilon(found: Any) -> float:
    """`strict_json` wrote null for an infinite one."""
    return math.inf if found is None else _number(found)


def _count(found: Any) -> int:
    if type(found) is not int or not 0 <= found < 2**53:
        raise ValueError("no count")
    return found


def charges_of(found: Any) -> tuple[Entry, ...]:
    """Sorted entries, with no mechanism twice; ValueError for anything else."""
    if not isinstance(found, list) or len(found) > _MOST_MECHANISMS:
        raise ValueError("no list of charges")
    return _entries(json.dumps(found))


@lru_cache(maxsize=65536)  # most clients of a run are alike
def _entries(text: str) -> tuple[Entry, ...]:
    rows = json.loads(text)
    for one in rows:
        if not isinstance(one, dict) or not all(type(value) in (int, float) for value in one.values()):
            raise ValueError("no list of charges")
        if what := unknown_steps(one):
            raise ValueError(f"charges for {what}, whose cost only fl_dp 1.0 knows")
        if (
            not {"sample_rate", "noise_multiplier", "steps"}
            <= one.keys()
            <= Entry.__dataclass_fields__.keys()
        ):
            raise ValueError("a charge with other fields")
        _count(one["steps"])
        one |= {name: _number(one[name]) for name in ("sample_rate", "noise_multiplier")}
    found = tuple(sorted(map(Entry.from_dict, rows)))
    if len({one.mechanism for one in found}) < len(found):
        raise ValueError("a mechanism that is charged twice")
    return found


def _reported(found: Any) -> tuple[tuple[str, Any], ...]:
    if not isinstance(found, dict):
        raise ValueError("no table of numbers")
    for one in found.values():
        if isinstance(one, dict | list) or (type(one) is int and abs(one) >= 2**53):
            raise ValueError("no table of numbers")
    return tuple(found.items())


Epsilon = Annotated[float, Read(_epsilon)]
Alone = Annotated[float | None, Read(_epsilon)]  # null in the file: infinite; None: not in the file
Count = Annotated[int, Read(_count)]
Charges = Annotated[tuple[Entry, ...], Read(charges_of)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCost:
    """What one client has paid, or may have paid, for this run.

    It counts steps in the client's ledger that the server asked for in this run, and nothing that the client
    claims about its past.

    charges, epsilon, epsilon_alone, planned_epsilon: as a client's, of these steps alone. claimed_epsilon: of
    everything else that its ledger shows. The last two are only in summary.json.
    """

    charges: Charges
    epsilon: Epsilon
    epsilon_alone: Alone = None
    planned_epsilon: float | None = None
    claimed_epsilon: Alone = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FederationBudget:
    """The clients that have paid for this run together.

    largest, median, least: of the clients' epsilons. accountants: those that computed them, sorted.
    arithmetic: of this run's rounds. rounds_ahead: rounds still to come. running_out: the clients whose
    budgets end before these do, sorted. unit: "record" or "person", whom the epsilons protect.
    epsilon_alone: as the report's epsilon, if the assumption behind secure sums fails; None, and not written,
    if no client's data were in such sums.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientReport:
    """One client, after a round or at the end.

    epsilon, steps: spent so far, in all runs that its ledger shows, as `accountant` computes it at `delta`;
    budget: the most that its data may spend. charges: everything that it has spent, or may have, merged:
    epsilon follows from these. arithmetic: of all these steps, one of `records.ARITHMETICS`. sample_rate,
    noise_multiplier: of this run's rounds; None if the client has no part in them, and without privacy.
    rounds_left: in how many of the planned rounds that were not run it could take part, the last one perhaps
    shortened. status: of the last round; reason: why it declined, failed or cannot take part; else empty.
    epsilon_alone: of the charges, if the assumption behind secure sums fails; None if none were in them.
    this_run: this run's part of the cost; None if that is all of it.

    In rounds.jsonl alone: reported: the numbers of its update of this round that are shown (`LocalUpdate`),
    by name. scaled: the factor applied to its update; below 1 if it was longer than an honest one can be.
    shares: of this round's steps, see `Entry`.

    In summary.json alone: rounds: rounds of this run whose update was accepted. rounds_beyond: how many
    rounds of another run like this one it could take part in, after those that are left. retired: accounts
    that were retired in its ledger; their spending is not in `epsilon`. public_size: its declared number of
    records or persons. before: what its ledger showed when it first registered. planned_epsilon: what it will
    have spent if all planned rounds are run; somebody who stops a run because of its results has learnt no
    less. budget_alone: the limit for epsilon_alone; None if there is none.
    """

    epsilon: Epsilon
    accountant: str
    steps: Count
    rounds_left: Count
    status: ClientStatus
    delta: float
    budget: float
    charges: Charges
    reason: str = ""
    arithmetic: str = STEADY_ROWS
    sample_rate: float | None = None
    noise_multiplier: float | None = None
    epsilon_alone: Alone = None
    this_run: RunCost | None = None
    reported: Annotated[tuple[tuple[str, Any], ...], Read(_reported)] = ()
    scaled: float = 1.0
    shares: Count = 1
    rounds: Count = 0
    rounds_beyond: Count = 0
    retired: Count = 0
    public_size: Count = 0
    before: Charges = ()
    planned_epsilon: float | None = None
    budget_alone: float | None = None

    @property
    def cost(self) -> "RunCost | ClientReport":
        """Where charges, epsilon, epsilon_alone and planned_epsilon of this run stand."""
        return self.this_run or self


_IN_ROUNDS = ("reported", "scaled", "shares")
_AT_THE_END = (
    "rounds", "rounds_beyond", "retired", "public_size", "before", "planned_epsilon", "budget_alone",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class OpenedSum:
    """A round's secure sum: number of clients, number of shares that make up its noise, and whether masks hid
    its parts. A simulation adds the parts up in the clear, with the same shares.
    """

    clients: Count
    shares: Count
    masked: bool


class _OfClients:
    """What a report of a round and a summary have in common."""

    __slots__ = ()

    clients: Mapping[str, ClientReport]

    @property
    def counted(self) -> dict[str, ClientReport]:
        """The clients, by name, that the federation's figures cover: those that have paid for this run."""
        return {name: one for name, one in self.clients.items() if one.cost.charges}


@dataclass(frozen=True, slots=True, kw_only=True)
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
    site_metrics: Mapping[str, object] | None = None

    def to_dict(self) -> dict[str, Any]:
        return _line(self, _AT_THE_END)


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
    `tasks/outcomes.py` says; empty, and not written, without classes. test_accounts: epsilon,
    delta, epsilon_alone and sites of the `site_metrics` at the end; empty, and not written, if nobody paid.
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
    test_accounts: Mapping[str, object] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return _line(self, _IN_ROUNDS)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A metric from the sites' own test records, and the ends of its interval; None: too few records."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TestAccount:
    """A site's account of test records, as it has shown it last: epsilon of all its charges at delta, out of
    budget; None without one. unheard: of how many evaluations since it has not said whether it paid; they are
    in charges and epsilon, which then are upper bounds. A site that has shown nothing then counts with its
    budget. epsilon_alone: where its account holds shares of secure sums, of fl_dp 1.0.
    """

    __test__: ClassVar = False  # for pytest

    status: str = ""
    reason: str = ""
    epsilon: Alone = None
    delta: float = 0.0
    budget: float = 0.0
    accountant: str = ""
    charges: Charges = ()
    epsilon_alone: Alone = None
    unheard: Count = 0


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


# Keys that only some runs and clients have, with the default for those that are not written.
_OF_SOME: dict[str, Any] = {
    "shares": 1, "epsilon_alone": None, "budget_alone": None, "claimed_epsilon": None,
    "secure_sum": None, "masked": None, "this_run": None, "constant": {}, "site_metrics": None,
    "outcomes": {}, "test_accounts": {},
}  # fmt: skip


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
    elif line.get("this_run") and "planned_epsilon" in without:
        del line["this_run"]["planned_epsilon"]
    return line


@lru_cache(maxsize=4096)
def _charges(entries: tuple[Entry, ...]) -> list[dict[str, Any]]:
    """Cached: most clients of a round are alike."""
    return [entry.to_dict() for entry in entries]


_ENCODED: dict[str, Callable[[Any], Any]] = {
    "federation": _line,
    "secure_sum": asdict,
    "this_run": _line,
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
