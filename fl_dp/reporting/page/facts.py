"""What a page says of one run, as values. Texts here are cleaned already, but not escaped."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from fl_dp.kits.signed import Signature
from fl_dp.records import Entry, total_steps
from fl_dp.reporting.page.approval import Approval
from fl_dp.reporting.reports import OVER

SAME = 1e-6  # epsilons of two machines that differ by less count as equal
Named = tuple[tuple[str, str], ...]
Measured = tuple[tuple[str, float | None], ...]


@dataclass(frozen=True, slots=True)
class AccountOfTests:
    """A site's account of test records. epsilon: None if it has shown none; epsilon_alone: None if none of
    its evaluations was of a secure sum. unheard: evaluations of which it has not said whether it paid: both
    epsilons then are upper bounds.
    """

    client: str
    epsilon: float | None = None
    budget: float | None = None
    delta: float | None = None
    epsilon_alone: float | None = None
    unheard: int = 0


@dataclass(frozen=True, slots=True)
class Client:
    """One client at the end. own_epsilon: of this run's steps, `own`; claimed_epsilon: of everything else in
    its ledger, None if not known; epsilon: of both, infinite if none holds. epsilon_alone: of both, if the
    assumption behind secure sums fails; None if its data were in none.
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
    planned_epsilon: float | None
    retired: int
    charges: tuple[Entry, ...]
    own: tuple[Entry, ...]
    own_epsilon: float
    claimed_epsilon: float | None
    epsilon_alone: float | None


@dataclass(frozen=True, slots=True)
class Round:
    """One round. counts: clients by status, in the order of CLIENT_STATUSES. metrics: of all test data."""

    number: int
    epsilon: float
    loss: float | None
    metrics: Mapping[str, float | None]
    seconds: float
    lost: str
    counts: tuple[int, ...]

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
    problem: str = ""
    one_run_ledger: bool = False

    @property
    def vouches(self) -> bool:
        """Whether it is about this run and has a valid signature."""
        return self.signed is Signature.HOLDS and not self.problem


@dataclass(frozen=True, slots=True)
class RunFacts:
    """One run. over: it has a summary. status: as in the summary, "interrupted", or "not finished".

    epsilon, delta: what this run has cost its clients. planned_epsilon: if all planned rounds are run; None
    if not known. hidden_metrics: number of class or subgroup metrics that are not shown. by_part: those that
    are. simulated: no client had a process of its own. local: the launch that wrote the folder started all
    clients, on its own machine. called: the run's name by its files. masked: whether masks hid the parts of
    its secure sums; None if it opened none. epsilon_alone: as epsilon, if the assumption behind secure sums
    fails; None if no data were in any. one_run_ledger: by its launch, the clients' ledger was made for this
    run alone. constant: what the best constant prediction reaches, in words; empty if not known. settings:
    those that are not a default. public: whoever started it declared its records public. data: form of a
    record, what is predicted, and the schema's digest.
    """

    called: str
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
    accountants: tuple[str, ...]
    arithmetic: str
    kept: str
    kept_round: int
    loss: float | None
    metrics: Mapping[str, float | None]
    by_part: Measured
    hidden_metrics: int
    seconds: float | None
    started: str
    ended: str
    max_grad_norm: float | None
    versions: Named
    digests: Named
    task: str
    described: Mapping[str, str]
    data: Named
    settings: tuple[tuple[str, str, str], ...]
    of_setting: Mapping[str, str]
    simulated: bool
    local: bool
    one_run_ledger: bool
    clients: tuple[Client, ...]
    history: tuple[Round, ...]
    sites: tuple[Site, ...]
    approval: Approval
    epsilon_alone: float | None
    masked: bool | None
    constant: str
    site_metrics: SiteMetrics | None
    tests: tuple[AccountOfTests, ...]
    outcomes: Outcomes

    @property
    def stating(self) -> tuple[Site, ...]:
        """The sites whose statements are about this run."""
        return tuple(one for one in self.sites if not one.problem)

    @property
    def signed(self) -> int:
        """For how many clients a valid signature stands under what their data have spent."""
        names = {data.client for site in self.sites if site.vouches for data in site.data}
        return sum(one.name in names for one in self.clients)

    @property
    def unreliable(self) -> int:
        """Number of statements with a wrong signature, or about another run."""
        return sum(site.signed is Signature.WRONG or bool(site.problem) for site in self.sites)

    @property
    def stated_more(self) -> list[float]:
        """Epsilons that sites of this run have stated and that are above those in the run's own files."""
        recorded = {one.name: one.epsilon for one in self.clients}
        stated = [(one.epsilon, one.client) for site in self.stating for one in site.data]
        return [epsilon for epsilon, name in stated if epsilon > recorded.get(name, math.inf) + SAME]

    @property
    def counted(self) -> tuple[Client, ...]:
        """The clients that the federation's figures cover."""
        return tuple(one for one in self.clients if one.own)

    @property
    def above(self) -> int:
        """How many clients have spent more than their budget."""
        return sum(one.budget is not None and one.epsilon > one.budget + SAME for one in self.clients)

    @property
    def without_budget(self) -> int:
        return sum(one.budget is None for one in self.clients)

    @property
    def mixed(self) -> int:
        """How many clients have paid this run for more than one rate or noise."""
        kinds = [{(e.sample_rate, e.noise_multiplier) for e in one.own} for one in self.clients]
        return sum(len(one) > 1 for one in kinds)

    @property
    def stopped(self) -> bool:
        """Whether it ended before its plan, perhaps because of its results."""
        return self.over and self.status not in OVER

    @property
    def begun(self) -> bool:
        """Whether it has paid for a round that was begun and not finished."""
        last = self.history[-1].epsilon if self.history else 0.0
        return self.stopped and self.private and last < self.epsilon < math.inf

    @property
    def maybe_paid(self) -> bool:
        """Whether clients may have paid for one round more than were finished."""
        return self.stopped and not self.released_nothing and self.rounds != self.planned_rounds

    @property
    def released_nothing(self) -> bool:
        """Whether, by its files, it trained nobody: no round, and no account that has paid for it."""
        return self.over and not self.rounds and not self.counted

    @property
    def spent_nothing(self) -> bool:
        """Whether rounds were run but no client has paid for one."""
        return self.private and bool(self.rounds) and not self.counted

    @property
    def has_model(self) -> bool:
        return self.over and bool(dict(self.digests).get("model"))

    @property
    def measured(self) -> bool:
        """Whether anything was measured on the server's test data."""
        found = [(self.loss, self.metrics), *((one.loss, one.metrics) for one in self.history)]
        return any(value is not None for loss, metrics in found for value in (loss, *metrics.values()))

    @property
    def first(self) -> str:
        """The metric that stands first, or else the loss."""
        return next(iter(self.history[0].metrics if self.history else self.metrics), "loss")

    @property
    def parts_hidden(self) -> bool:
        """Whether masks hid each client's part from the server. A launch that plays all of them sees it."""
        return self.masked is not False and not self.simulated

    def knows_others(self) -> dict[str, bool | None]:
        """By client: whether its ledger knows of other runs, or was made for this run alone.

        Taken from the client's own statement, or without one from how the run was launched. None if the files
        do not say.
        """
        launched = not self.one_run_ledger if self.local else None
        stated = {one.client: site.one_run_ledger for site in self.stating for one in site.data}
        return {one.name: not stated[one.name] if one.name in stated else launched for one in self.clients}

    def knowing(self) -> list[bool | None]:
        """`knows_others` of the clients in the federation's figures, so that no other client changes it."""
        known = self.knows_others()
        return [known[one.name] for one in self.counted or self.clients]

    @property
    def all_steps_own(self) -> bool:
        """Whether the ledgers of those who trained show no steps of other runs."""
        return all(total_steps(one.own) == total_steps(one.charges) for one in self.counted)

    @property
    def together(self) -> list[Client]:
        """Who has spent most in this run and others; nobody if none is counted."""
        return sorted(self.counted, key=lambda one: -one.epsilon)[:1]
