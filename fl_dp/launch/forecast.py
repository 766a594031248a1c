"""What a run will cost each client, by the functions that the run itself uses."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fl_dp.config.run import RunConfig
from fl_dp.federation.server.combine import Aggregator
from fl_dp.federation.server.report import client_budget, cost_of_run, federation_of, resolved
from fl_dp.federation.server.strategy import aggregator_of
from fl_dp.federation.server.verify import Verdict
from fl_dp.federation.wire.arrays import ArraySpec
from fl_dp.launch.clients import client_config
from fl_dp.launch.spending import (
    NOWHERE,
    ClientSpending,
    ForeseenAccounts,
    in_common,
    mean_rounds,
    spending_of,
    takes_every_round,
)
from fl_dp.records import Entry
from fl_dp.reporting.reports import FederationBudget


@dataclass(frozen=True, slots=True)
class Forecast:
    """config: the run's; resolved: with what "auto" becomes. clients: in the order of their numbers, if they
    take part in all rounds that their budgets allow.

    epsilon, delta: what the run costs at the end; federation: its budgets. usual_rounds: that a client takes
    part in, in the mean. ends: the round that cannot begin for want of budget; None: all can. exactly:
    whether it follows from the config; where clients are chosen by chance it is a mean. noise_share: as of
    `noise_share_of`.
    """

    config: RunConfig
    resolved: RunConfig
    clients: tuple[ClientSpending, ...]
    epsilon: float
    delta: float
    federation: FederationBudget
    usual_rounds: float
    ends: int | None
    exactly: bool
    noise_share: float

    @property
    def sampled(self) -> bool:
        """Whether it is chance who takes part in a round."""
        return self.config.fit_clients < self.config.clients or not self.exactly

    @property
    def running_out(self) -> tuple[ClientSpending, ...]:
        """Clients whose budgets end before the rounds that they may be asked for."""
        return tuple(one for one in self.clients if one.rounds < self.config.rounds)


def forecast_of(
    config: RunConfig, sizes: Sequence[int], ledgers: Path | None, shared: dict[str, ArraySpec]
) -> Forecast:
    """sizes: as each client would declare. ledgers: a folder whose ledger counts; None: nothing is spent.

    shared: what clients send back. LedgerError for a ledger that cannot be read; it is not changed.
    """
    accounts, rounds = ForeseenAccounts(ledgers), config.rounds
    settings = [client_config(config, client, ledgers or NOWHERE) for client in range(config.clients)]
    profiles = [accounts.profile(one, size) for one, size in zip(settings, sizes, strict=True)]
    common, rate = in_common(config, profiles)
    clients = tuple(spending_of(profile, common, rounds, rate) for profile in profiles)
    records, aggregating = [one.record for one in clients], aggregator_of(config, shared)
    cost = cost_of_run(records, config, rounds)
    idle = Verdict("idle", "")
    budgets = {one.name: client_budget(one, idle, rounds, rounds) for one in records}
    exactly = takes_every_round(config)
    return Forecast(
        config,
        resolved(config, records, aggregating),
        clients,
        cost.epsilon,
        cost.delta,
        federation_of(cost, budgets, rounds, config),
        mean_rounds(config),
        _ends(config, [one.rounds for one in clients], aggregating, exactly),
        exactly,
        noise_share_of(
            [one.drawn for one in clients],
            [one.public_size for one in profiles],
            sum(math.prod(one.shape) for one in shared.values()),
        ),
    )


def noise_share_of(entries: Sequence[Entry | None], sizes: Sequence[int], parameters: int) -> float:
    """How long all noise of a run is beside the most that its records can say: above 1 it drowns them.

    A step's sum of clipped gradients is at most rate * size clipping bounds long in the mean, even if all
    agree; its noise is about noise multiplier * sqrt(parameters) bounds long (DP-SGD: Abadi et al. 2016).
    Over steps the first add up, and the squares of the second. 0 without privacy, and where no step is taken.
    """
    signal = noise = 0.0
    for entry, size in zip(entries, sizes, strict=True):
        if entry is not None and entry.private:
            signal += entry.sample_rate * size * entry.steps
            noise += entry.noise_multiplier**2 * parameters * entry.steps
    return math.sqrt(noise) / signal if signal else 0.0


def _ends(config: RunConfig, left: Sequence[int], aggregating: Aggregator, exactly: bool) -> int | None:
    """The first round without enough clients that can take a step. left: rounds of each client."""
    if not exactly:
        mean = int(sum(left) // config.fit_clients)
        return mean + 1 if mean < config.rounds else None
    for server_round in sorted({1, *(number + 1 for number in left)}):
        able = sum(number >= server_round for number in left)
        if server_round <= config.rounds and (not able or able < aggregating.least_updates(able)):
            return server_round
    return None


def spread(clients: Sequence[ClientSpending]) -> list[tuple[str, ClientSpending]]:
    """The clients with the largest, the median and the least epsilon."""
    ordered = sorted(clients, key=lambda one: (-one.epsilon, one.record.profile.public_size))
    middle = statistics.median_low(range(len(ordered)))
    return [("largest", ordered[0]), ("median", ordered[middle]), ("least", ordered[-1])]
