"""Forecasts what a run costs each client, with the run's own functions."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fl_dp.config.run import RunConfig
from fl_dp.federation.server.combine import Aggregator
from fl_dp.federation.server.report import cost_of_run, resolved
from fl_dp.federation.server.strategy import aggregator_of
from fl_dp.federation.wire.arrays import ArraySpec, shared_specs
from fl_dp.launch.spending import (
    ClientSpending,
    ForeseenAccounts,
    mean_rounds,
    spendings_of,
    takes_every_round,
)
from fl_dp.records import Entry
from fl_dp.tasks.load import new_model, task_of


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
    """clients: by number, if each takes part in all rounds that its budget allows.

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
        """Whether clients are sampled for each round; `ends` is then a mean."""
        return not takes_every_round(self.config)

    @property
    def usual_rounds(self) -> float:
        """The expected number of rounds that a client takes part in."""
        return mean_rounds(self.config)

    @property
    def running_out(self) -> tuple[ClientSpending, ...]:
        """Clients whose budgets end before the rounds that they may be asked for."""
        return tuple(one for one in self.clients if one.rounds < self.config.rounds)

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
    def rounds(self) -> int:
        """Rounds until the end, or until the budgets end the run."""
        return min(self.config.rounds, (self.ends or self.config.rounds + 1) - 1)

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
    cost = cost_of_run([one.record for one in clients], config, config.rounds)
    parameters = sum(math.prod(one.shape) for one in shared.values())
    alone = [found for one in clients if (found := one.if_sums_fail()) is not None]
    return Forecast(
        config, clients, cost.epsilon, cost.delta, aggregator_of(config, shared), parameters,
        max(alone) if alone else None,
    )  # fmt: skip


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
