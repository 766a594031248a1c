"""What is reported about a round and about a run: the formats of rounds.jsonl and summary.json.

An epsilon here is always a total: over all rounds, and over earlier runs on the same ledger. Whose it is, is
said beside it: a client's `accountant`, the federation's `accountants`.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from operator import attrgetter
from typing import Any, Literal

from fl_dp.records import ASSUMED

ClientStatus = Literal["trained", "declined", "failed", "idle"]
RunStatus = Literal["completed", "budget-exhausted", "failed"]

NOT_PRIVATE = "NOT PRIVATE"  # marks everything that comes from a run without privacy


@dataclass(frozen=True, slots=True)
class FederationBudget:
    """The budgets of all clients together.

    largest, median, least: of the clients' epsilons. accountants: those that have computed them, sorted.
    arithmetic: "proven" if that of every client is, else "assumed".
    clients_per_person: the number of clients at which one person may have a record; the report's epsilon and
    delta hold for that. rounds_ahead: rounds still to come. running_out: the clients whose budgets end before
    these do, sorted. unit: "record" or "person", of whom the epsilons speak.
    """

    largest: float
    median: float
    least: float
    accountants: tuple[str, ...]
    clients_per_person: int
    rounds_ahead: int
    running_out: tuple[str, ...]
    arithmetic: str = ASSUMED
    unit: str = "record"


@dataclass(frozen=True, slots=True)
class ClientRound:
    """One client after one round.

    epsilon, steps: spent so far; accountant: the one that has computed epsilon. arithmetic: of all these
    steps, one of `records.ARITHMETICS`. sample_rate: of this run's rounds; None when the client has no part
    in them, and without privacy. rounds_left: in how many of the rounds still to come it could take part,
    the last one perhaps shortened. reason: why it declined, failed or can take no part; else empty.
    reported: the numbers of its update of this round that are shown (`LocalUpdate`), by name. scaled: what
    its update was multiplied by; below 1 where it was longer than an honest one can be.
    """

    epsilon: float
    accountant: str
    steps: int
    sample_rate: float | None
    rounds_left: int
    status: ClientStatus
    reason: str = ""
    reported: tuple[tuple[str, str | int | float | bool], ...] = ()
    arithmetic: str = ASSUMED
    scaled: float = 1.0


@dataclass(frozen=True, slots=True)
class RoundReport:
    """One line of rounds.jsonl.

    epsilon, delta: the federation's: the largest over its clients (their data are disjoint), or with
    clients_per_person = m the sum of the m largest. federation: its clients' budgets.
    private: whether the run is; if not, epsilon is infinite, whatever the clients' are.
    noise_multiplier: the least that a client of this round was asked for; None without privacy, and when
    none was asked.
    loss, accuracy, metrics: of the global model on the server's test data: the mean of the task's loss, the
    share of right answers where the task has it, and all its metrics, by name. None: not measured, or not
    defined on these data.
    seconds: wall time, the wait for clients included.
    lost: why the global model stayed as it was although clients trained and paid; else empty. lost_rounds: so
    far, this one included.
    """

    round: int
    private: bool
    epsilon: float
    delta: float
    federation: FederationBudget
    noise_multiplier: float | None
    clients: Mapping[str, ClientRound]
    loss: float | None
    accuracy: float | None
    seconds: float
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    lost: str = ""
    lost_rounds: int = 0

    def to_dict(self) -> dict[str, Any]:
        return _with_clients(self)


@dataclass(frozen=True, slots=True)
class ClientBudget:
    """One client at the end of a run: `epsilon` spent of `budget`, at `delta`, as `accountant` computes it.

    arithmetic: of all that was spent. rounds: rounds of this run whose update was accepted. rounds_left: in
    how many rounds of another run like this one it could take part. status, reason: of the last round.
    retired: accounts that were retired in its ledger; what they spent is not in `epsilon`.
    """

    epsilon: float
    accountant: str
    budget: float
    delta: float
    steps: int
    rounds: int
    rounds_left: int
    status: ClientStatus
    reason: str = ""
    retired: int = 0
    arithmetic: str = ASSUMED


@dataclass(frozen=True, slots=True)
class Summary:
    """summary.json. `rounds` is the number of rounds run, `lost_rounds` of them without a new model; `reason`
    says why it is not "completed".

    model: "last", or "best" where it was chosen on the server's validation half; model_round: the round that
    it is of, 0 the start. accuracy, loss, metrics: of it, on the test data or their other half.
    private, epsilon, delta, federation: as in a RoundReport, but the rounds ahead are those of another such
    run. epsilon, delta and federation are None without clients.
    """

    status: RunStatus
    private: bool
    rounds: int
    epsilon: float | None
    delta: float | None
    federation: FederationBudget | None
    accuracy: float | None
    loss: float | None
    seconds: float
    clients: Mapping[str, ClientBudget]
    reason: str = ""
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    lost_rounds: int = 0
    model: str = "last"
    model_round: int = 0

    def to_dict(self) -> dict[str, Any]:
        return _with_clients(self)


def _with_clients(report: RoundReport | Summary) -> dict[str, Any]:
    """Like `asdict`, whose deep copies would take a hundred milliseconds for a thousand clients."""
    whole = _shallow(report)
    clients = {name: _client_line(client) for name, client in report.clients.items()}
    federation = None if report.federation is None else _shallow(report.federation)
    return {**whole, "clients": clients, "federation": federation}


def _client_line(client: ClientRound | ClientBudget) -> dict[str, Any]:
    line = _shallow(client)
    return {**line, "reported": dict(client.reported)} if isinstance(client, ClientRound) else line


def _shallow(record: Any) -> dict[str, Any]:
    names = tuple(record.__dataclass_fields__)
    return dict(zip(names, _values_of(names)(record), strict=True))


@cache
def _values_of(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    return attrgetter(*names)


def strict_json(value: Any) -> Any:
    """`value` with every NaN and infinity replaced by None: JSON has neither."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: strict_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [strict_json(item) for item in value]
    return value
