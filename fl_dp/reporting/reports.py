"""The formats of rounds.jsonl and summary.json: what is reported about a round and about a run.

A client's epsilon is a total over everything that its ledger shows, earlier runs included; that is its site's
claim. The federation's is of this run alone, from the rounds that the server asked for (`RunCost`). The
accountant stands beside each: a client's `accountant`, the federation's `accountants`.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache, lru_cache
from operator import attrgetter
from typing import Any, Literal

from fl_dp.records import STEADY_ROWS, ClientStatus, Entry

RunStatus = Literal["completed", "budget-exhausted", "failed"]
OVER: tuple[RunStatus, ...] = ("completed", "budget-exhausted")  # statuses of runs with nothing left to do
INTERRUPTED = "interrupted"  # the reason of a failed run that was ended from outside, by Ctrl-C or a signal
RUN_EPSILON_SPENT = "One more step would cost a client more than the run's epsilon."  # of "budget-exhausted"

NOT_PRIVATE = "NOT PRIVATE"  # marks everything that comes from a run without privacy

# If the assumption behind secure sums fails, an epsilon above this promises nothing useful: "none" is
# shown.
BEYOND_USE = 20.0


# What the federation's figures count: rounds that the server asked for in this run; or, in files from
# before 2026-11-26, everything that every client present has shown, asked or not.
SCOPES = THIS_RUN, ALL_RUNS = ("this-run", "all-runs")


@dataclass(frozen=True, slots=True)
class RunCost:
    """What one client has paid, or may have paid, for this run.

    It counts steps in the client's ledger that the server asked for in this run, and nothing that the client
    claims about its past.

    charges, epsilon, epsilon_alone, planned_epsilon: as a client's, of these steps alone. claimed_epsilon: of
    everything else that its ledger shows. The last two are only in summary.json.
    """

    charges: tuple[Entry, ...]
    epsilon: float
    epsilon_alone: float | None = None
    planned_epsilon: float | None = None
    claimed_epsilon: float | None = None


@dataclass(frozen=True, slots=True)
class FederationBudget:
    """The clients that have paid for this run together; if `scope` is ALL_RUNS, all that were there.

    largest, median, least: of the clients' epsilons. accountants: those that computed them, sorted.
    arithmetic: of this run's rounds; for ALL_RUNS the weakest of every client's.
    rounds_ahead: rounds still to come. running_out: the clients whose budgets end before
    these do, sorted. unit: "record" or "person", whom the epsilons protect.
    epsilon_alone: as the report's epsilon, if the assumption behind secure sums fails; None, and not written,
    if no client's data were in such sums.
    """

    largest: float
    median: float
    least: float
    accountants: tuple[str, ...]
    rounds_ahead: int
    running_out: tuple[str, ...]
    arithmetic: str = STEADY_ROWS
    unit: str = "record"
    epsilon_alone: float | None = None
    scope: str = ALL_RUNS


@dataclass(frozen=True, slots=True)
class ClientRound:
    """One client after one round.

    epsilon, steps: spent so far; accountant: the one that computed epsilon. arithmetic: of all these steps,
    one of `records.ARITHMETICS`. sample_rate: of this run's rounds; None if the client has no part in them,
    and without privacy. rounds_left: how many of the remaining rounds it could take part in, the last one
    perhaps shortened. reason: why it declined, failed or cannot take part; else empty.
    delta, budget: the delta at which epsilon holds, and the most that its data may spend. noise_multiplier:
    as sample_rate. charges: everything that it has spent, or may have, merged: epsilon follows from these, at
    delta.
    reported: the numbers of its update of this round that are shown (`LocalUpdate`), by name. scaled: the
    factor applied to its update; below 1 if it was longer than an honest one can be.
    shares: of this round's steps, see `Entry`; written unless it is 1. epsilon_alone:
    of the charges, if the assumption behind secure sums fails; None, and not written, if none were in them.
    this_run: this run's part of the cost; None, and not written, if that is all of it.
    """

    epsilon: float
    accountant: str
    steps: int
    sample_rate: float | None
    rounds_left: int
    status: ClientStatus
    reason: str = ""
    reported: tuple[tuple[str, str | int | float | bool], ...] = ()
    arithmetic: str = STEADY_ROWS
    scaled: float = 1.0
    delta: float | None = None
    budget: float | None = None
    noise_multiplier: float | None = None
    charges: tuple[Entry, ...] = ()
    shares: int = 1
    epsilon_alone: float | None = None
    this_run: RunCost | None = None


@dataclass(frozen=True, slots=True)
class OpenedSum:
    """A round's secure sum: number of clients, number of shares that make up its noise, and whether masks hid
    its parts. A simulation adds the parts up in the clear, with the same shares.
    """

    clients: int
    shares: int
    masked: bool


@dataclass(frozen=True, slots=True)
class RoundReport:
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
    site_metrics: of the global model on the sites' own test records; None, and not written, if they were not
    due. metrics: by name, value and ends of the interval, "low" and "high"; None: not enough records for the
    noise. sites: for each site its account of test records, as it has shown it last: epsilon of all its
    charges at delta, out of budget. unheard: of how many evaluations since it has not said whether it paid;
    they are in charges and epsilon, which then are upper bounds. A site that has shown nothing then counts
    with its budget. epsilon, delta: the largest of any site; epsilon_alone: as for training, where a site's
    account may hold shares of secure sums, of fl_dp 1.0. outcomes: as in the `Summary`, of the sites' noised
    counts; not written without any.
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
    secure_sum: OpenedSum | None = None
    site_metrics: Mapping[str, object] | None = None

    def to_dict(self) -> dict[str, Any]:
        return _line(self)


@dataclass(frozen=True, slots=True)
class ClientBudget:
    """One client at the end of a run: `epsilon` spent of `budget`, at `delta`, as `accountant` computes it.

    arithmetic: of all that was spent. rounds: rounds of this run whose update was accepted. rounds_left: how
    many of the planned rounds that were not run it could still take part in; rounds_beyond: how many rounds
    of another run like this one, after those. status, reason: of the last round.
    retired: accounts that were retired in its ledger; their spending is not in `epsilon`.
    public_size: its declared number of records or persons. noise_multiplier, sample_rate, charges: as in a
    ClientRound. before: what its ledger showed when it first registered. planned_epsilon: what it will have
    spent if all planned rounds are run; somebody who stops a run because of its results has learnt no less.
    epsilon_alone, this_run: as in a ClientRound. budget_alone: the limit for epsilon_alone; None, and not
    written, if there is none.
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
    arithmetic: str = STEADY_ROWS
    rounds_beyond: int = 0
    public_size: int = 0
    sample_rate: float | None = None
    noise_multiplier: float | None = None
    charges: tuple[Entry, ...] = ()
    before: tuple[Entry, ...] = ()
    planned_epsilon: float | None = None
    epsilon_alone: float | None = None
    budget_alone: float | None = None
    this_run: RunCost | None = None


@dataclass(frozen=True, slots=True)
class Summary:
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
    with fewer test examples have no metrics of their own; 0 in files of an fl_dp that reported all.
    masked: whether masks hid the parts of its secure sums, for all that were opened; None, and not written,
    if there were none. constant: loss and metrics of the best constant prediction, by name; empty,
    and not written, if it is not known. outcomes: what the page draws of the model's answers, as
    `tasks/outcomes.py` says; empty, and not written, without classes. test_accounts: epsilon,
    delta, epsilon_alone and sites of the `site_metrics` at the end; empty, and not written, if nobody paid.
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
    planned_epsilon: float | None = None
    run: str = ""
    started: str = ""
    ended: str = ""
    max_grad_norm: float | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)
    task: str = ""
    suppressed_below: int = 0
    masked: bool | None = None
    constant: Mapping[str, float | None] = field(default_factory=dict)
    outcomes: Mapping[str, object] = field(default_factory=dict)
    test_accounts: Mapping[str, object] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return _line(self)


# Keys that only some runs and clients have, with the default for those that are not written.
OF_SOME: dict[str, Any] = {
    "shares": 1, "epsilon_alone": None, "budget_alone": None,
    "secure_sum": None, "masked": None, "this_run": None, "constant": {}, "site_metrics": None,
    "outcomes": {}, "test_accounts": {},
}  # fmt: skip


def _line(record: Any) -> dict[str, Any]:
    """Like `asdict`, whose deep copies would take a hundred milliseconds for a thousand clients."""
    line = _shallow(record)
    for name, usual in OF_SOME.items():
        if line.get(name, usual) == usual:
            line.pop(name, None)
    for name, encoded in _ENCODED.items():
        if line.get(name) is not None:
            line[name] = encoded(line[name])
    if isinstance(record, ClientRound) and record.this_run:
        del line["this_run"]["planned_epsilon"], line["this_run"]["claimed_epsilon"]
    return line


@lru_cache(maxsize=4096)
def _charges(entries: tuple[Entry, ...]) -> list[dict[str, Any]]:
    """Cached: most clients of a round are alike."""
    return [entry.to_dict() for entry in entries]


_ENCODED: dict[str, Callable[[Any], Any]] = {
    "clients": lambda clients: {name: _line(one) for name, one in clients.items()},
    "federation": _line,
    "secure_sum": asdict,
    "this_run": _line,
    "charges": _charges,
    "before": _charges,
    "reported": dict,
}


def _shallow(record: Any) -> dict[str, Any]:
    names = tuple(record.__dataclass_fields__)
    return dict(zip(names, _values_of(names)(record), strict=True))


@cache
def _values_of(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    return attrgetter(*names)


def of_this_run(client: Mapping[str, Any]) -> Mapping[str, Any]:
    """Where a client's charges, epsilon, epsilon_alone and planned_epsilon of this run stand.

    client: of a report, as JSON. In a file of ALL_RUNS they are those of all runs.
    """
    found: Mapping[str, Any] = client.get("this_run") or client
    return found


def counts_this_run(report: Mapping[str, Any]) -> bool:
    """Whether the federation's figures are of this run alone. report: a round's or a summary, as JSON."""
    return bool((report.get("federation") or {}).get("scope") == THIS_RUN)


def counted_clients(report: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The clients, by name, that the federation's figures cover. report: a round's or a summary, as JSON."""
    clients: Mapping[str, Mapping[str, Any]] = report.get("clients", {})
    if not counts_this_run(report):
        return dict(clients)
    return {name: one for name, one in clients.items() if of_this_run(one).get("charges")}


def epsilon_from_json(value: float | None) -> float:
    """The epsilon that `strict_json` wrote: None stands for infinity, if none holds."""
    return math.inf if value is None else float(value)


def strict_json(value: Any) -> Any:
    """`value` with every NaN and infinity replaced by None: JSON has neither."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: strict_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [strict_json(item) for item in value]
    return value
