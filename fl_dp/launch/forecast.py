"""What a run will cost each client, by the functions that the run itself uses."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.config.client import ClientConfig
from fl_dp.config.run import RunConfig
from fl_dp.federation.client.profile import profile_of
from fl_dp.federation.client.registration import dataset_name
from fl_dp.federation.server import status
from fl_dp.federation.server.aggregating import Aggregating
from fl_dp.federation.server.client_record import ClientRecord
from fl_dp.federation.server.registration import record_of
from fl_dp.federation.server.replies import Verdict
from fl_dp.federation.server.resolved import resolved
from fl_dp.federation.wire.arrays import ArraySpec
from fl_dp.launch.clients import client_config, ledger_file
from fl_dp.records import ASSUMED, PROVEN, ClientProfile
from fl_dp.reporting.reports import FederationBudget

_NOWHERE = Path("no-ledger")  # of a run that makes a new one


@dataclass(frozen=True, slots=True)
class ClientForecast:
    """One client. epsilon: at the end, if it takes part in all rounds that its budget allows; before: now.

    rounds: of the run's, in which a step fits its budget; the last may be a short one. record: as the server
    will see it.
    """

    record: ClientRecord
    before: float
    epsilon: float
    rounds: int

    @property
    def name(self) -> str:
        return self.record.name


@dataclass(frozen=True, slots=True)
class Forecast:
    """config: the run's; resolved: with what "auto" becomes. clients: in the order of their numbers.

    epsilon, delta: the federation's at the end; federation: its budgets. usual_rounds: that a client takes
    part in, in the mean. ends: the round that cannot begin for want of budget; None: all can. exactly:
    whether it follows from the config; where clients are chosen by chance it is a mean.
    """

    config: RunConfig
    resolved: RunConfig
    clients: tuple[ClientForecast, ...]
    epsilon: float
    delta: float
    federation: FederationBudget
    usual_rounds: float
    ends: int | None
    exactly: bool

    @property
    def sampled(self) -> bool:
        """Whether it is chance who takes part in a round."""
        return self.config.fit_clients < self.config.clients or not self.exactly

    @property
    def running_out(self) -> tuple[ClientForecast, ...]:
        """Clients whose budgets end before the rounds that they may be asked for."""
        return tuple(one for one in self.clients if one.rounds < self.config.rounds)


def forecast_of(
    config: RunConfig, sizes: Sequence[int], ledgers: Path | None, shared: dict[str, ArraySpec]
) -> Forecast:
    """sizes: public, of each client. ledgers: a folder whose ledger counts; None: nothing is spent.

    shared: what clients send back. LedgerError for a ledger that cannot be read; it is not changed.
    """
    records = [record_of(profile, config) for profile in _profiles(config, sizes, ledgers)]
    rounds, aggregating = config.rounds, Aggregating(config, shared)
    together = status.guarantee(
        records, config.clients_per_person, private=config.private, rounds_more=rounds
    )
    assert together is not None  # a run has clients
    idle = Verdict("idle", "")
    budgets = {one.name: status.client_budget(one, idle, rounds, rounds) for one in records}
    clients = tuple(
        ClientForecast(one, one.epsilon(), one.epsilon_after(rounds), one.rounds_left(rounds))
        for one in records
    )
    exactly = config.fit_clients == config.clients and config.sampling != "poisson"
    return Forecast(
        config,
        resolved(config, records, aggregating),
        clients,
        together.epsilon,
        together.delta,
        status.federation(together, budgets, rounds, config.unit_name),
        rounds * config.fit_clients / config.clients,
        _ends(config, [one.rounds for one in clients], aggregating, exactly),
        exactly,
    )


def _profiles(config: RunConfig, sizes: Sequence[int], ledgers: Path | None) -> list[ClientProfile]:
    settings = [client_config(config, client, ledgers or _NOWHERE) for client in range(config.clients)]
    file = None if ledgers is None else ledger_file(ledgers)
    if file is None or not file.exists():
        return [profile_of(one, size, (), PROVEN, 0) for one, size in zip(settings, sizes, strict=True)]
    with Ledger.open_existing(file) as ledger:
        return [
            _known_profile(ledger, one, size, known)
            for known in [{one.dataset for one in ledger.accounts() if one.retired is None}]
            for one, size in zip(settings, sizes, strict=True)
        ]


def _known_profile(ledger: Ledger, settings: ClientConfig, size: int, known: set[str]) -> ClientProfile:
    """By what the ledger holds under that name; whether it is of the same records is not asked."""
    name = dataset_name(settings)
    if name not in known:
        return profile_of(settings, size, (), PROVEN, ledger.retirements())
    (arithmetic,) = ledger.arithmetics([name])
    return profile_of(settings, size, ledger.spent(name), arithmetic or ASSUMED, ledger.retirements())


def _ends(config: RunConfig, left: Sequence[int], aggregating: Aggregating, exactly: bool) -> int | None:
    """The first round without enough clients that can take a step. left: rounds of each client."""
    if not exactly:
        mean = int(sum(left) // config.fit_clients)
        return mean + 1 if mean < config.rounds else None
    for server_round in sorted({1, *(number + 1 for number in left)}):
        able = sum(number >= server_round for number in left)
        if server_round <= config.rounds and (not able or able < aggregating.least_updates(able)):
            return server_round
    return None


def spread(clients: Sequence[ClientForecast]) -> list[tuple[str, ClientForecast]]:
    """The clients with the largest, the median and the least epsilon."""
    ordered = sorted(clients, key=lambda one: (-one.epsilon, one.record.profile.public_size))
    middle = statistics.median_low(range(len(ordered)))
    return [("largest", ordered[0]), ("median", ordered[middle]), ("least", ordered[-1])]
