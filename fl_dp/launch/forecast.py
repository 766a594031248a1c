"""Forecasts what a run costs each client, with the run's own functions."""

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from fl_dp.accounting.budget import Budget, auto_delta
from fl_dp.accounting.calibration import calibrate_noise
from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.accounting.ledger.files import ledger_file
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.accounting.training_plan import ENOUGH, chosen_rounds
from fl_dp.config.client import ClientConfig
from fl_dp.config.flat import AUTO
from fl_dp.config.run import RunConfig
from fl_dp.config.run_settings import TURNS
from fl_dp.engine.noise.grid import noise_grid
from fl_dp.engine.sum_error import sum_error
from fl_dp.federation.client.budgets import profile_of
from fl_dp.federation.client.registration import dataset_name
from fl_dp.federation.server.client_record import ClientRecord, record_of
from fl_dp.federation.server.combine import Aggregator
from fl_dp.federation.server.planning import most_rounds, sample_rate, takes_every_round
from fl_dp.federation.server.report import cost_of_run, resolved
from fl_dp.federation.server.strategy import aggregator_of
from fl_dp.federation.wire.arrays import ArraySpec, shared_specs
from fl_dp.launch.clients import client_config
from fl_dp.launch.ledger_place import NOWHERE
from fl_dp.records import PROVEN, ClientProfile, Entry
from fl_dp.reporting.console import rounded_up
from fl_dp.reporting.wording import counted
from fl_dp.tasks.held_out import cap_of
from fl_dp.tasks.load import new_model, task_of
from fl_dp.tasks.score_histogram import BINS, Layout


@dataclass(frozen=True, slots=True)
class ClientSpending:
    """What one client spends if it takes part in that many rounds, as far as its budget allows.

    record: as the server will see it. before, epsilon: of its account, now and at the end; rounds: those in
    which at least one step fits its budget; the last may be shortened. entry: rate, noise and all steps of
    these rounds; None if there are none, and `record.reason` says why it has no part in the run at all.
    own_rate: at which its own records are drawn; in a secure sum it may be charged for a larger one.
    """

    record: ClientRecord
    before: float
    epsilon: float
    rounds: int
    entry: Entry | None
    own_rate: float

    @property
    def name(self) -> str:
        return self.record.name

    @property
    def drawn(self) -> Entry | None:
        """`entry` with the rate at which its own records are drawn."""
        return self.entry and replace(self.entry, sample_rate=self.own_rate)

    def if_sums_fail(self, spent: tuple[Entry, ...] = ()) -> float | None:
        """The epsilon of `spent` and these rounds if the assumption behind secure sums fails; None if none of
        them are in a sum.
        """
        entries = (*spent, *((self.entry,) if self.entry else ()))
        return _if_sums_fail(self.record.budget, entries) if any(one.shared for one in entries) else None


def spendings_of(
    config: RunConfig, sizes: Sequence[int], accounts: "ForeseenAccounts"
) -> tuple[ClientSpending, ...]:
    """What each client of the run spends in `most_rounds` rounds, by client number.

    sizes: as each would declare.
    """
    settings = [client_config(config, client, NOWHERE) for client in range(len(sizes))]
    profiles = list(map(accounts.profile, settings, sizes))
    common, most = in_common(config, profiles), most_rounds(config)
    return tuple(spending_of(profile, common, most) for profile in profiles)


def spending_of(profile: ClientProfile, config: RunConfig, rounds: int) -> ClientSpending:
    """What the client spends in `rounds` rounds of the run."""
    record = record_of(profile, config)
    planned = record.mechanism
    steps = record.steps_left(rounds * planned.steps) if planned else 0
    return ClientSpending(
        record,
        record.cost.epsilon,
        record.epsilon_after(rounds),
        record.rounds_left(rounds),
        planned.taking(steps) if planned and steps else None,
        sample_rate(config, profile.public_size),
    )


def in_common(config: RunConfig, profiles: Iterable[ClientProfile]) -> RunConfig:
    """The config, with the one noise of secure sums if "auto" finds several, as the server computes it
    (`federation/server/ask.py`).
    """
    if not config.secure or config.noise_multiplier != AUTO:
        return config
    found = [one for one in (record_of(profile, config).mechanism for profile in profiles) if one]
    return replace(config, noise_multiplier=max(one.noise_multiplier for one in found)) if found else config


@lru_cache(maxsize=4096)  # most clients are alike
def _if_sums_fail(budget: Budget, entries: tuple[Entry, ...]) -> float:
    return budget.epsilon_alone_of(entries)


def mean_rounds(config: RunConfig) -> float:
    """The expected number of rounds that a client takes part in."""
    return config.rounds * config.fit_clients / config.clients


def usual_rounds(config: RunConfig) -> tuple[int, int, int]:
    """The fewest, the median and the most rounds of a client; if chance draws, the 10, 50, 90 % quantiles."""
    if takes_every_round(config):
        return (config.rounds,) * 3
    if config.sampling == TURNS:
        least, extra = divmod(config.rounds * config.fit_clients, config.clients)
        return least, least + (2 * extra > config.clients), most_rounds(config)
    share = config.fit_clients / config.clients
    least, median, most = (chosen_rounds(config.rounds, share, one) for one in (1 - ENOUGH, 0.5, ENOUGH))
    return least, median, most


@dataclass(frozen=True, slots=True)
class _Account:
    """spent: in all. arithmetic: the weakest in it. size: declared when it was opened; 0: no account yet."""

    spent: tuple[Entry, ...] = ()
    arithmetic: str = PROVEN
    size: int = 0


_UNKNOWN = _Account()


class ForeseenAccounts:
    """What data sets have spent, by name, from a ledger.

    Accounts are matched by name; whether the records are the same is not checked.
    """

    def __init__(self, ledgers: Path | None) -> None:
        """ledgers: the folder of a ledger, which is read and not changed. With None, or without a ledger in
        it, nothing is spent. LedgerError if a ledger cannot be read.
        """
        self._accounts: dict[str, _Account] = {}
        self._retired = 0
        file = None if ledgers is None else ledger_file(ledgers)
        if file is None or not file.exists():
            return
        with Ledger.open_existing(file) as opened:
            in_use = [account for account in opened.accounts() if account.retired is None]
            arithmetics = opened.arithmetics([account.dataset for account in in_use])
            self._retired = opened.retirements()
        for account, arithmetic in zip(in_use, arithmetics, strict=True):
            self._accounts[account.dataset] = _Account(account.spent(), arithmetic, account.public_size)

    def profile(self, settings: ClientConfig, size: int) -> ClientProfile:
        """What the client would register with. size: as declared; a size in the ledger wins."""
        held = self._accounts.get(dataset_name(settings), _UNKNOWN)
        return profile_of(settings, held.size or size, held.spent, held.arithmetic, self._retired)


@dataclass(frozen=True, slots=True)
class Memory:
    """physical_batch_size: most examples in memory at once. step_bytes: what a step adds to its process;
    resident_bytes: of this process, which holds the data as a client's does.
    """

    physical_batch_size: int
    step_bytes: int
    resident_bytes: int


@dataclass(frozen=True, slots=True)
class Forecast:
    """clients: by number, each in `most_rounds` rounds, as far as its budget allows.

    epsilon, delta: the run's cost at its end. epsilon_alone: the same if the assumption behind secure sums
    fails; None if no client is in one. parameters: number of jointly trained values. memory: on this
    machine; None if it was not measured, or no client can take part.
    """

    config: RunConfig
    clients: tuple[ClientSpending, ...]
    epsilon: float
    delta: float
    aggregator: Aggregator
    parameters: int
    epsilon_alone: float | None = None
    memory: Memory | None = None

    @property
    def resolved(self) -> RunConfig:
        """The config with "auto" replaced by what it becomes."""
        return resolved(self.config, [one.record for one in self.clients], self.aggregator)

    @property
    def mechanisms(self) -> list[Entry]:
        """One round of each client that can take part."""
        return [one.record.mechanism for one in self.clients if one.record.mechanism]

    @property
    def sizes(self) -> list[int]:
        """The records, or persons, that each client declares."""
        return [one.record.profile.public_size for one in self.clients]

    @property
    def sampled(self) -> bool:
        """Whether a round takes some clients only; `ends` is then a mean."""
        return not takes_every_round(self.config)

    @property
    def most_rounds(self) -> int:
        """The rounds of each client that are counted."""
        return most_rounds(self.config)

    @property
    def usual(self) -> list[tuple[int, float]]:
        """Rounds and epsilon of this run as `usual_rounds` has them, for the client with the median cost."""
        one = self.spread()[1][1].record
        return [(rounds, one.run_epsilon_after(rounds)) for rounds in usual_rounds(self.config)]

    @property
    def running_out(self) -> tuple[ClientSpending, ...]:
        """Clients whose budgets end before the rounds that are counted."""
        return tuple(one for one in self.clients if one.rounds < self.most_rounds)

    @property
    def ends(self) -> int | None:
        """The first round without enough clients that can take a step; None: all rounds can begin."""
        config, left = self.config, [one.rounds for one in self.clients]
        if self.sampled:
            mean = int(sum(left) // config.fit_clients)
            return mean + 1 if mean < config.rounds else None
        for server_round in sorted({1, *(number + 1 for number in left)}):
            able = sum(number >= server_round for number in left)
            if server_round <= config.rounds and (not able or able < self.aggregator.least_updates(able)):
                return server_round
        return None

    @property
    def noise_share(self) -> float:
        return noise_share_of([one.drawn for one in self.clients], self.sizes, self.parameters)

    def spread(self) -> list[tuple[str, ClientSpending]]:
        """The clients with the largest, the median and the least epsilon."""
        ordered = sorted(self.clients, key=lambda one: (-one.epsilon, one.record.profile.public_size))
        middle = statistics.median_low(range(len(ordered)))
        return [("largest", ordered[0]), ("median", ordered[middle]), ("least", ordered[-1])]


def forecast_of(
    config: RunConfig, sizes: Sequence[int], ledgers: Path | None, shared: dict[str, ArraySpec] | None = None
) -> Forecast:
    """sizes: as each client would declare. ledgers: folder of the ledger to count; None: nothing is spent.

    shared: what clients send back; None: taken from the config's model. LedgerError if a ledger cannot be
    read; the ledger is not changed.
    """
    if shared is None:
        shared = shared_specs(new_model(task_of(config)), config.personal)
    clients = spendings_of(config, sizes, ForeseenAccounts(ledgers))
    cost = cost_of_run([one.record for one in clients], config, most_rounds(config))
    parameters = sum(math.prod(one.shape) for one in shared.values())
    alone = [found for one in clients if (found := one.if_sums_fail()) is not None]
    return Forecast(
        config,
        clients,
        cost.epsilon,
        cost.delta,
        aggregator_of(config, shared),
        parameters,
        max(alone) if alone else None,
    )


def noise_share_of(entries: Sequence[Entry | None], sizes: Sequence[int], parameters: int) -> float:
    """Length of all noise of a run over the strongest signal of its records; above 1 it drowns them.

    A step's sum of clipped gradients is expected to be at most rate * size clipping bounds long, even if all
    agree; its noise is about noise multiplier * sqrt(parameters) bounds long (DP-SGD: Abadi et al. 2016).
    Over steps, the sums add up and the noises' squares do; a member of a secure sum adds one share of its
    noise. 0 without privacy, and if no step is taken.
    """
    signal = noise = 0.0
    for entry, size in zip(entries, sizes, strict=True):
        if entry is not None and entry.private:
            signal += entry.sample_rate * size * entry.steps
            noise += entry.noise_multiplier**2 / entry.shares * parameters * entry.steps
    return math.sqrt(noise) / signal if signal else 0.0


_USUAL = (100, 1000, 10_000)  # test records of all sites together, if their number is not known
_NORMAL = 1.96  # deviations of an interval of 95 %
_GUESS = 0.5


@dataclass(frozen=True, slots=True)
class SiteMetricsForecast:
    """noise: its multiplier. epsilon: what the evaluation costs each site's test records at delta, within
    `evaluate-epsilon`. deviation: of the noise in each cell. sites: with test records. records: of all sites,
    about; 0: not known; of_persons: persons were counted, and each may have more.
    """

    noise: float
    epsilon: float
    delta: float
    deviation: float
    sites: int
    records: int
    of_persons: bool = False

    def half_width(self, records: int, *, noisy: bool = True) -> float:
        """The largest half-width of accuracy's interval, whatever the accuracy is.

        Let a be right over all, and s the deviation. Half of the cells of the block of all records count
        right answers, BINS of 2 BINS. To first order a moves by (1 - a) of the noise of these and by -a of
        that of the others, over n: by s^2 BINS ((1 - a)^2 + a^2) / n^2, at most s^2 BINS / n^2. That of the
        sample is a (1 - a) / n, at most 1 / 4n.
        """
        noise = self.deviation**2 * BINS / records**2 if noisy else 0.0
        return _NORMAL * math.sqrt(noise + 0.25 / records)

    def lines(self) -> Iterator[str]:
        yield (
            f"sites' own test records: an evaluation at {counted(self.sites, 'site')} costs them epsilon "
            f"{rounded_up(self.epsilon)} at delta {self.delta:g}, in accounts of their own, with noise "
            f"multiplier {self.noise:g}"
        )
        one_each = ", one of each person" if self.of_persons and self.records else ""
        for records in (self.records,) if self.records else _USUAL:
            width, plain = self.half_width(records), self.half_width(records, noisy=False)
            found = "is hidden by the noise" if width >= _GUESS else f"is known to within {width:.2g} at most"
            yield (
                f"with about {records} test records{one_each} at all sites together, the accuracy {found} "
                f"(95 % confidence; without noise {plain:.2g})"
            )


def forecast_site_metrics(config: RunConfig, sizes: tuple[int, ...] = ()) -> SiteMetricsForecast | None:
    """None if the sites are not asked, or if the form of the data is not known here.

    sizes: declared training records of the clients; empty: they are elsewhere, and are taken to have the
    config's evaluate-epsilon. ConfigError for a task without classes; AccountingError if no noise is enough.
    """
    if not config.site_metrics or task_of(config).known_form is None:
        return None
    share = config.test_share
    tests = [round(size * share / (1 - share)) for size in sizes]
    delta = auto_delta(max([1, *tests])) if config.delta == AUTO else float(config.delta)
    noise = calibrate_noise(1.0, 1, config.evaluate_epsilon, delta, accountant=config.accountant)
    layout, sites = Layout.of(task_of(config).form, cap_of(config)), config.clients
    grid = noise_grid(layout.sensitivity, noise, layout.size, sum_error(1))
    return SiteMetricsForecast(
        noise,
        compute_epsilon([Entry(1.0, noise, 1)], delta, config.accountant),
        delta,
        math.sqrt(sites) * grid.deviation,
        sites,
        sum(tests),
        of_persons=bool(config.person_column),
    )
