"""What the data on this machine have spent, over all runs: a wall, not an alarm.

Keyed by data set and not by run, because privacy is spent by the data. A round is paid for in
two entries: reserved before training, committed before its result leaves. What was reserved and never
committed counts as spent, whatever happened in between; nothing is ever given back (docs/ledger.md says why).
"""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fl_dp.accounting.accounts import Account, read_accounts
from fl_dp.accounting.budget import Budget
from fl_dp.accounting.event_log import EventLog
from fl_dp.accounting.hash_chain import Row
from fl_dp.accounting.identity import Identity, conflict
from fl_dp.accounting.overlap import sketch
from fl_dp.errors import BudgetExhaustedError, DeclinedError, LedgerError
from fl_dp.records import Entry

Mechanism = tuple[float, float]  # sample rate, noise multiplier
Digests = Callable[[], Iterable[bytes]]  # of a data set's records; asked for once, at its first use


@dataclass(frozen=True, slots=True)
class Reservation:
    """Steps that are paid for and may now be taken; `id` is the number of their entry."""

    id: int
    entry: Entry


class Ledger:
    """One open ledger file; several processes may hold it open and never overspend together."""

    def __init__(self, log: EventLog) -> None:
        self._log = log

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open, or begin, the ledger at `path`; LedgerError if it is not a sound ledger."""
        return cls._verified(EventLog.open(path, create=True))

    @classmethod
    def open_existing(cls, path: Path) -> Self:
        """Open the ledger at `path`; LedgerError if there is none, or no sound one."""
        return cls._verified(EventLog.open(path, create=False))

    @classmethod
    def _verified(cls, log: EventLog) -> Self:
        try:
            log.rows()
        except LedgerError:
            log.close()
            raise
        return cls(log)

    def close(self) -> None:
        self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def verify(self) -> int:
        """The number of entries; LedgerError if one was edited or removed."""
        return len(self.rows())

    def rows(self) -> list[Row]:
        """Every entry as it is kept, with its hash, verified; for an export."""
        return self._log.rows()

    def accounts(self) -> list[Account]:
        """What every data set has paid for; retired ones included, oldest first."""
        return read_accounts(self._log.events())

    def register(
        self,
        dataset: str,
        fingerprint: str,
        public_size: int,
        *,
        source: str = "",
        cut: str = "",
        digests: Digests | None = None,
    ) -> int:
        """Enter a data set on its first use; returns its public size, as declared then.

        fingerprint: of the contents, so that a changed or renamed set is noticed. source: the whole set that
        it is a part of, by `cut` (see `Identity`); itself if empty. digests: so that a set with many of the
        same records is noticed; what is kept of them is keyed, and stays in this file.
        LedgerError when a record may be in another set of this ledger: its spending would start at zero.
        """
        with self._log.writing():
            in_use = _in_use(self.accounts())
            for account in in_use:
                if (account.dataset, account.fingerprint) == (dataset, fingerprint):
                    return account.public_size
            sample = sketch(digests(), self._log.secret()) if digests else ""
            identity = Identity(dataset, fingerprint, source or dataset, cut, sample)
            self._refuse_conflict(in_use, identity)
            self._append("register", **asdict(identity), public_size=public_size)
        return public_size

    def spent(self, dataset: str) -> tuple[Entry, ...]:
        """All that the data set has paid for, reserved or committed, equal mechanisms merged.

        LedgerError for a data set that was never registered: a mistyped name must not look unspent.
        """
        return self._account(self.accounts(), dataset).spent()

    def reserve(
        self, dataset: str, run: str, server_round: int, mechanism: Mechanism, planned: int, budget: Budget
    ) -> Reservation:
        """Pay for as many of the `planned` steps as still fit `budget`, in one transaction, on disk.

        Raises BudgetExhaustedError when not one fits, DeclinedError for a round of this run that was
        reserved before (a replay), LedgerError when nothing can be written.
        """
        with self._log.writing():
            accounts = self.accounts()
            spent = self._account(accounts, dataset).spent()
            _check_new_round(accounts, dataset, run, server_round)
            steps = budget.steps_that_fit(*mechanism, planned, spent)
            if steps == 0:
                raise BudgetExhaustedError(
                    f"Not one more step fits: epsilon {budget.epsilon_of(spent):.4f} of {budget.epsilon:g} "
                    f"is spent at delta {budget.delta:g}."
                )
            entry = Entry(*mechanism, steps)
            wall = {"epsilon": budget.epsilon, "delta": budget.delta, "accountant": budget.accountant}
            number = self._append(
                "reserve", dataset, run=run, round=server_round, budget=wall, **entry.to_dict()
            )
        return Reservation(number, entry)

    def commit(self, reservation: Reservation) -> None:
        """Note that the reserved steps were taken and their result is about to leave.

        LedgerError if they are not open to be committed: unknown, committed before, or of a data set that was
        retired in between. Their result must then not leave.
        """
        with self._log.writing():
            dataset = self._dataset_of_open(reservation.id)
            self._append("commit", dataset, reserved=reservation.id)

    def retirements(self) -> int:
        """How many accounts were retired in this ledger, of whatever data: a name is quickly changed."""
        return sum(account.retired is not None for account in self.accounts())

    def retire(self, dataset: str) -> None:
        """End the data set's account, so that its next use begins a new one with nothing spent.

        The entries stay: privacy that was spent stays spent, only the wall moves. LedgerError if no such
        data set is in use.
        """
        with self._log.writing():
            self._account(self.accounts(), dataset)
            self._append("retire", dataset)

    def _account(self, accounts: Iterable[Account], dataset: str) -> Account:
        """The data set's account in use."""
        for account in _in_use(accounts):
            if account.dataset == dataset:
                return account
        raise LedgerError(f"{self._log.path}: data set {dataset} is not registered.")

    def _dataset_of_open(self, number: int) -> str:
        for account in _in_use(self.accounts()):
            if any(paid.id == number and not paid.committed for paid in account.rounds):
                return account.dataset
        raise LedgerError(f"{self._log.path}: entry {number} is not open to be committed.")

    def _refuse_conflict(self, in_use: Iterable[Account], new: Identity) -> None:
        for account in in_use:
            if reason := conflict(account.identity, new):
                raise LedgerError(f"{self._log.path}: {reason}")

    def _append(self, kind: str, dataset: str, **fields: Any) -> int:
        time = datetime.now(UTC).isoformat(timespec="seconds")
        return self._log.append({"kind": kind, "time": time, "dataset": dataset, **fields})


def _in_use(accounts: Iterable[Account]) -> list[Account]:
    return [account for account in accounts if account.retired is None]


def _check_new_round(accounts: Iterable[Account], dataset: str, run: str, server_round: int) -> None:
    """DeclinedError for a replay, also of a round that was taken before the data set was retired."""
    rounds = (paid for account in accounts if account.dataset == dataset for paid in account.rounds)
    if any((paid.run, paid.server_round) == (run, server_round) for paid in rounds):
        raise DeclinedError(f"Round {server_round} of run {run} was taken before; it is not repeated.")
