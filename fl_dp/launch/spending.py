"""What a client will spend in a run, by the functions that plan and pay it; nothing is started or written."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from fl_dp.accounting.budget import Budget
from fl_dp.accounting.ledger.files import ledger_file
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.config.client import ClientConfig
from fl_dp.config.flat import AUTO
from fl_dp.config.run import RunConfig
from fl_dp.federation.client.budgets import profile_of
from fl_dp.federation.client.registration import dataset_name
from fl_dp.federation.server.client_record import ClientRecord, record_of
from fl_dp.federation.server.planning import sample_rate
from fl_dp.launch.clients import client_config
from fl_dp.launch.ledger_place import NOWHERE
from fl_dp.records import PROVEN, ClientProfile, Entry


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
    """What each client of the run spends if it takes part in all rounds, by client number.

    sizes: as each would declare.
    """
    settings = [client_config(config, client, NOWHERE) for client in range(len(sizes))]
    profiles = list(map(accounts.profile, settings, sizes))
    common = in_common(config, profiles)
    return tuple(spending_of(profile, common, config.rounds) for profile in profiles)


def spending_of(profile: ClientProfile, config: RunConfig, rounds: int) -> ClientSpending:
    """What the client spends in `rounds` rounds of the run."""
    record = record_of(profile, config)
    planned = record.mechanism
    steps = record.steps_left(rounds * planned.steps) if planned else 0
    return ClientSpending(
        record,
        record.epsilon(),
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


def takes_every_round(config: RunConfig) -> bool:
    """Whether all clients take part in all rounds; otherwise chance decides, and no forecast is exact."""
    return config.fit_clients == config.clients and config.sampling != "poisson"


def mean_rounds(config: RunConfig) -> float:
    """The expected number of rounds that a client takes part in."""
    return config.rounds * config.fit_clients / config.clients


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
