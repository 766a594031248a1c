"""What rounds.jsonl and summary.json report about a round and about a run.

A client's epsilon covers everything that its ledger shows, earlier runs included; its site claims it. The
federation's covers this run alone: the rounds that the server asked for (`this_run`). Beside each stands its
accountant: a client's `accountant`, the federation's `accountants`.

The annotations are also the schema of the files: `run_files` reads nothing else.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

from fl_dp.accounting.cost import Alone, Charges, Cost, Epsilon
from fl_dp.records import STEADY_ROWS, ClientStatus
from fl_dp.reporting.report_json import as_json, dumps
from fl_dp.schema import EXACT, Count, Read

RunStatus = Literal["completed", "budget-exhausted", "failed"]
OVER: tuple[RunStatus, ...] = ("completed", "budget-exhausted")  # statuses of runs with nothing left to do
INTERRUPTED = "interrupted"  # the reason of a failed run that was ended from outside, by Ctrl-C or a signal
RUN_EPSILON_SPENT = "One more step would cost a client more than the run's epsilon."  # if "budget-exhausted"

NOT_PRIVATE = "NOT PRIVATE"  # marks everything that comes from a run without privacy

BEYOND_USE = 20.0  # a larger epsilon, if the assumption behind secure sums fails, is shown as "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class FederationBudget:
    """All clients that have paid for this run.

    largest, median, least: of the clients' epsilons. accountants: those that computed them, sorted.
    arithmetic: of this run's rounds. rounds_ahead: rounds still to come. running_out: the clients whose
    budgets end before the rounds that they are expected in, sorted. unit: what the epsilons protect, "record"
    or "person". epsilon_alone: the report's epsilon if the assumption behind secure sums fails; None, and not
    written, if no client's data were in such sums.
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
    """One client, after a round or at the end. Its cost is that of all runs that its ledger shows.

    steps: in `charges`: all that it has spent, or may have spent. delta, accountant: of the epsilons. budget:
    the limit of epsilon. arithmetic: of all these steps, one of `records.ARITHMETICS`. sample_rate,
    noise_multiplier: of this run's rounds; None if the client has no part in them, and without privacy.
    rounds_left: in how many of the planned rounds that were not run it could take part; the last of them may
    be shorter. status: of the last round. reason: why it declined, failed or cannot take part; else empty.
    this_run: what it has paid, or may have paid, for this run: the steps that the server asked for, whatever
    the client claims about its past; None if that is all of its cost.

    Only in rounds.jsonl: reported: the shown numbers of its update (`LocalUpdate`), by name. scaled: the
    factor applied to its update; below 1 if the update was longer than an honest one can be. shares: of this
    round's steps, see `Entry`.

    Only in summary.json: rounds: of this run, those whose update was accepted. rounds_beyond: in how many
    rounds of another run like this one it could take part, after those that are left. retired: number of
    retired accounts in its ledger; their spending is not in `epsilon`. public_size: its declared number of
    records or persons. before: what its ledger showed when it first registered. budget_alone: the limit of
    epsilon_alone, or None.
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
    """A round's secure sum. shares: the number that make up its noise. masked: whether masks hid its parts.

    A simulation adds the parts up in the clear, with the same shares.
    """

    clients: Count
    shares: Count
    masked: bool


@dataclass(frozen=True, slots=True)
class Estimate:
    """A metric or share of test records, and the ends of its interval; None: too few records."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TestAccount(Cost):
    """What a site's test records have cost, or may have cost. Without an account: only status and reason.

    unheard: number of evaluations since, for which it has not said whether it paid. They are in charges and
    epsilon, which then are upper bounds; a site that has shown nothing counts with its whole budget.
    epsilon_alone: only if its account holds shares of secure sums, as fl_dp 1.0 made them.
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
        """Whether there is an account."""
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
    """What a round's report and a summary have in common."""

    __slots__ = ()

    clients: Mapping[str, ClientReport]

    @property
    def counted(self) -> dict[str, ClientReport]:
        """The clients that the federation's figures cover, by name: those that have paid for this run."""
        return {name: one for name, one in self.clients.items() if one.cost.charges}


@dataclass(frozen=True, kw_only=True)
class RoundReport(_OfClients):
    """One line of rounds.jsonl.

    epsilon, delta: the federation's, which are the largest that this run has cost one client: the clients'
    data are disjoint. federation: its clients' budgets.
    private: whether the run is; if not, epsilon is infinite, whatever the clients' are.
    noise_multiplier: the least that a client of this round was asked for; None without privacy, and if no
    client was asked.
    loss, accuracy, metrics: of the global model on the server's test data: the mean loss, the share of right
    answers if the task has it, and all metrics by name. None: not measured, or not defined on these data.
    seconds: wall time, including the wait for clients.
    lost: why the global model stayed the same although clients trained and paid; else empty. lost_rounds: so
    far, including this one. secure_sum: None, and not written, if there is none.
    site_metrics: of the global model on the sites' own test records; None, and not written, if not due.
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
        return as_json(self, _AT_THE_END)

    @cached_property
    def line(self) -> str:
        """As in rounds.jsonl, without the line end."""
        return dumps(self.to_dict())


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary(_OfClients):
    """summary.json. `rounds` is the number of rounds run, `lost_rounds` of them without a new model.

    reason: why the status is not "completed".
    model: "last", "average", or "best" if it was chosen on the server's validation half. model_round: the
    round that it comes from, 0 for the start. accuracy, loss, metrics: of it, on the server's test data or
    their other half.
    private, epsilon, delta, federation: as in the last round's report. planned_epsilon: if all planned rounds
    are run. All of these are None without clients.
    run: its name in the ledgers. started, ended: UTC, ISO 8601; of a resumed run the first start.
    max_grad_norm: the clipping bound. versions: of the software that computed, by name. digests: SHA-256 of
    the model's weights (`weights_digest`), of config.toml and of fl_dp's own code, by name. task: identity of
    the task's code; empty if all of it is built in. suppressed_below: classes and subgroups with fewer test
    examples have no metrics of their own.
    masked: whether masks hid the parts of all secure sums; None, and not written, without any. constant: loss
    and metrics of the best constant prediction, by name; empty, and not written, if not known. outcomes: what
    the page draws of the model's answers, see `tasks/outcomes.py`; empty, and not written, without classes.
    test_accounts: the `site_metrics` at the end, without metrics; None, and not written, if nobody paid.
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
        return as_json(self, _IN_ROUNDS)


def of_one_class(metric: str) -> bool:
    """Whether the metric is of one class or subgroup, NAME[LABEL]."""
    return metric.endswith("]")
