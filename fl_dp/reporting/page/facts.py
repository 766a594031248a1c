"""What a report says of one run, as values. Texts here are already cleaned, but not escaped."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from fl_dp.config.data import PERSON
from fl_dp.kits.signed import Signature
from fl_dp.records import Entry, total_steps
from fl_dp.reporting.page.approval import Approval
from fl_dp.reporting.reports import OVER

Named = tuple[tuple[str, str], ...]
Measured = tuple[tuple[str, float | None], ...]


@dataclass(frozen=True, slots=True)
class Client:
    """One client at the end. epsilon: of everything that its ledger shows, infinite if none holds.

    own_epsilon, own_charges: of this run's steps alone, None if not known; claimed_epsilon: of everything
    else in its ledger. before: what the ledger showed when the client first registered.
    rounds_left: of the planned rounds and of others like them together. epsilon_alone: if the assumption
    behind secure sums fails; None if its data were in none.
    """

    name: str
    status: str
    reason: str
    epsilon: float
    budget: float | None
    delta: float | None
    accountant: str
    arithmetic: str
    steps: int
    rounds: int | None
    rounds_left: int
    public_size: int
    sample_rate: float | None
    noise_multiplier: float | None
    charges: tuple[Entry, ...]
    before: tuple[Entry, ...]
    planned_epsilon: float | None
    retired: int
    own_epsilon: float | None = None
    own_charges: tuple[Entry, ...] | None = None
    claimed_epsilon: float | None = None
    epsilon_alone: float | None = None


@dataclass(frozen=True, slots=True)
class Round:
    """One round. counts: clients by status, in the order of CLIENT_STATUSES. metrics: of all test data.

    epsilons: of a few clients all, in their order; of many five quantiles, see `round_facts`.
    """

    number: int
    epsilon: float
    loss: float | None
    metrics: Mapping[str, float | None]
    seconds: float
    lost: str
    counts: tuple[int, ...]
    epsilons: tuple[float, ...]

    def measured(self, name: str) -> float | None:
        """The loss, or a metric, by name."""
        return self.loss if name == "loss" else self.metrics.get(name)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A metric from the sites' own test records, and the ends of its interval; None: too few records."""

    name: str
    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class AccountOfTests:
    """A site's account of test records. charges: all its evaluations; epsilon: None if it has shown none.

    status, reason: of the last evaluation. epsilon_alone: None if no evaluation was of a secure sum. unheard:
    the evaluations of which it has not said whether it paid; charges and epsilons then are upper bounds.
    """

    client: str
    status: str
    reason: str
    epsilon: float | None = None
    budget: float | None = None
    delta: float | None = None
    accountant: str = ""
    charges: tuple[Entry, ...] = ()
    epsilon_alone: float | None = None
    unheard: int = 0


@dataclass(frozen=True, slots=True)
class Histogram:
    """Test records by their score, a probability, of the class. ends: bins + 1, from 0 to 1. places: the
    score that stands for each bin. counts: of others and of the class. deviation: of the noise of each.
    """

    of_class: str
    ends: tuple[float, ...]
    places: tuple[float, ...]
    counts: tuple[tuple[float, float], ...]
    deviation: float


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What was answered to test records, see `tasks/outcomes.py`. confusion: counts by class and by the class
    that was predicted, or none. withheld: why nothing is told; else empty.
    """

    classes: tuple[str, ...] = ()
    confusion: tuple[tuple[float, ...], ...] = ()
    scores: tuple[Histogram, ...] = ()
    withheld: str = ""


@dataclass(frozen=True, slots=True)
class SiteMetrics:
    """The evaluation on the sites' own test records. number: of its round."""

    number: int
    estimates: tuple[Estimate, ...]
    accounts: tuple[AccountOfTests, ...]
    outcomes: Outcomes


@dataclass(frozen=True, slots=True)
class DataSet:
    """One client's data, from its site's statement. kind: empty if the name is one."""

    client: str
    name: str
    kind: str
    unit: str
    public_size: int
    epsilon: float
    arithmetic: str
    delta: float
    budget: float


@dataclass(frozen=True, slots=True)
class Site:
    """One statement. signed: by the key beside it; see there.

    problem: why it does not belong to this run's model, else empty. one_run_ledger: as stated.
    """

    data: tuple[DataSet, ...]
    commitment: str
    key: str
    signed: Signature
    retired: int
    date: str
    problem: str = ""
    one_run_ledger: bool = False

    @property
    def vouches(self) -> bool:
        """Whether it is about this run and has a valid signature."""
        return self.signed is Signature.HOLDS and not self.problem


@dataclass(frozen=True, slots=True)
class DataFacts:
    """What model.json says of the data: public declarations in the server's words, nothing from a record.

    record, predicted: one record, and what is predicted of it, in words; empty if not known.
    classes: names of classes or of predicted numbers. columns: of a table's schema: name, kind, permitted
    content. schema: SHA-256 of its text; empty if there is none.
    """

    record: str = ""
    predicted: str = ""
    classes: tuple[str, ...] = ()
    columns: tuple[tuple[str, str, str], ...] = ()
    schema: str = ""


@dataclass(frozen=True, slots=True)
class Setting:
    """asked: in config.toml; became: in resolved.toml."""

    key: str
    asked: str
    became: str


@dataclass(frozen=True, slots=True)
class RunFacts:
    """One run. over: it has a summary. status: as in the summary, "interrupted", or "not finished".

    epsilon, delta: the federation's: what this run has cost if of_this_run; in files of an older fl_dp, all
    runs on these data. planned_epsilon: if all planned rounds are run; None if not known.
    hidden_metrics: number of class or subgroup metrics that are not shown.
    reasons: status, reason and count, most frequent first. simulated: no client had a process of its own.
    local: the launch that wrote the folder started all clients, on its own machine.
    name: of the folder where it lies now; called: of the one that it was written to, by config.toml.
    before_known: its files say what the data had spent before the run.
    by_part: metrics of each class or subgroup by name, if small ones are known to be withheld.
    masked: whether masks hid the parts of its secure sums; None if it opened none.
    epsilon_alone: as epsilon, if the assumption behind secure sums fails; None if no data were in any.
    one_run_ledger: by its launch, the clients' ledger was made for this run alone.
    constant: what the best constant prediction reaches, in words; empty if not known.
    site_metrics: None if none were measured. test_accounts: the sites', at the end or the last evaluation.
    outcomes: on the server's test data.
    """

    name: str
    digest: str
    over: bool
    private: bool
    status: str
    reason: str
    rounds: int
    planned_rounds: int | None
    lost_rounds: int
    epsilon: float
    delta: float | None
    planned_epsilon: float | None
    unit: str
    clients_per_person: int
    accountants: tuple[str, ...]
    arithmetic: str
    kept: str
    kept_round: int
    loss: float | None
    metrics: Mapping[str, float | None]
    hidden_metrics: int
    seconds: float | None
    identity: str
    started: str
    ended: str
    max_grad_norm: float | None
    versions: Named
    digests: Named
    task: str
    described: Mapping[str, str]
    settings: tuple[Setting, ...]
    simulated: bool
    local: bool
    clients: tuple[Client, ...]
    before_known: bool
    history: tuple[Round, ...]
    reasons: tuple[tuple[str, str, int], ...]
    sites: tuple[Site, ...]
    approval: Approval
    data: DataFacts
    by_part: Mapping[str, Measured]
    epsilon_alone: float | None
    masked: bool | None
    of_this_run: bool
    called: str
    one_run_ledger: bool
    constant: str
    site_metrics: SiteMetrics | None
    test_accounts: tuple[AccountOfTests, ...]
    outcomes: Outcomes

    @property
    def stating(self) -> tuple[Site, ...]:
        """The sites whose statements are about this run."""
        return tuple(one for one in self.sites if not one.problem)

    @property
    def signed(self) -> tuple[DataSet, ...]:
        """The data that these sites have stated under a valid signature."""
        return tuple(one for site in self.sites if site.vouches for one in site.data)

    @property
    def counted(self) -> tuple[Client, ...]:
        """The clients that the federation's figures cover."""
        return tuple(one for one in self.clients if one.own_charges or not self.of_this_run)

    @property
    def budget(self) -> float | None:
        """The largest budget of these clients."""
        return max((one.budget for one in self.counted if one.budget is not None), default=None)

    @property
    def chosen(self) -> bool:
        """Whether results of rounds may have decided which model this is, or when the run ended."""
        return self.kept == "best" or self.status not in OVER

    @property
    def stopped(self) -> bool:
        """Whether it ended before its plan, perhaps because of its results."""
        return self.over and self.status not in OVER

    @property
    def begun(self) -> bool:
        """Whether it has paid for a round that was begun and not finished."""
        last = self.history[-1].epsilon if self.history else 0.0
        return self.stopped and self.private and self.of_this_run and last < self.epsilon < math.inf

    @property
    def released_nothing(self) -> bool:
        """Whether, by its files, it trained nobody: no round, and no account that holds more than before.

        The accounts in the summary include a round that was begun and not finished.
        """
        if not self.over or self.rounds:
            return False
        if self.of_this_run:
            return not self.counted
        known = self.before_known or not self.clients
        return known and all(total_steps(one.charges) == total_steps(one.before) for one in self.clients)

    @property
    def spent_nothing(self) -> bool:
        """Whether rounds were run but no client has paid for one."""
        return self.private and self.of_this_run and bool(self.rounds) and not self.counted

    @property
    def has_model(self) -> bool:
        """Whether it left a model. An older fl_dp wrote no digest of it."""
        digests = dict(self.digests)
        return self.over and (bool(digests.get("model")) if digests else self.rounds > 0)

    @property
    def measured(self) -> bool:
        """Whether anything was measured on the server's test data."""
        found = [(self.loss, self.metrics), *((one.loss, one.metrics) for one in self.history)]
        return any(value is not None for loss, metrics in found for value in (loss, *metrics.values()))

    @property
    def tested(self) -> str:
        """What the server has measured the run's model on."""
        if self.kept == "best":
            return "the half of the server's test data that it was not chosen on"
        return "the server's test data"

    @property
    def records_per_person(self) -> int:
        """How many records of a person count in a step; 0 if the unit is a record, or it is not known."""
        asked = self.setting("records-per-person")
        return int(asked) if self.unit == PERSON and asked.isdecimal() and len(asked) < 10 else 0

    def setting(self, key: str) -> str:
        """The value that the key had in the run; empty if not known."""
        return next((one.became for one in self.settings if one.key == key), "")
