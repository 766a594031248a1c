"""What the data on this machine have spent, over all runs. It is a hard limit, not just a warning.

The ledger counts by data set and not by run, because the privacy of data is spent. A round is paid for in two
entries: it is reserved before training, and committed before its result leaves. What was reserved but never
committed also counts as spent. Nothing is ever given back; docs/ledger.md says why.
Training without protection has no limit, and is noted before it begins. From then on no epsilon holds for
those data, and private rounds are refused.
A payment has secret bytes, from which all of its round's random numbers follow. They are kept only as long as
the round may be repeated, see `Reservation`.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from fl_dp.accounting.budget import Budget
from fl_dp.accounting.events import merge
from fl_dp.accounting.ledger.accounts import (
    ONE_RUN,
    SHARED,
    UNPROTECTED,
    Account,
    AccountBook,
    LedgerRound,
    OpenAccount,
    arithmetic_of,
)
from fl_dp.accounting.ledger.event_log import EventLog
from fl_dp.accounting.ledger.files import lasting_ledger, ledger_file
from fl_dp.accounting.ledger.hash_chain import Row
from fl_dp.accounting.ledger.identity import Identity
from fl_dp.accounting.ledger.payment_keys import PaymentKeys, new_key
from fl_dp.accounting.ledger.requests import DataDeclaration, Reservation, ReservationRequest
from fl_dp.config.data import RECORD
from fl_dp.errors import BudgetExhaustedError, DeclinedError, LedgerError, RoundTakenError
from fl_dp.records import Entry


class Ledger:
    """One open ledger file. Several processes may hold it open, and together they never overspend."""

    def __init__(self, log: EventLog, *, one_run: bool = False) -> None:
        self._log, self._book, self._one_run = log, AccountBook(), one_run
        self._keys = PaymentKeys(log.database)

    @classmethod
    def open(cls, path: Path | str | None = None, *, one_run: bool = False) -> Self:
        """Open the ledger at `path`, or create it; LedgerError if it is not a sound ledger.

        path: None for the default ledger of this machine's clients.
        one_run: the ledger is made for this one run. Each entry then says so, see `of_one_run`.
        """
        file = ledger_file(lasting_ledger()) if path is None else Path(path)
        return cls._verified(EventLog.open(file, create=True), one_run=one_run)

    @classmethod
    def open_existing(cls, path: Path) -> Self:
        """Open the ledger at `path`; LedgerError if there is none, or it is not sound."""
        return cls._verified(EventLog.open(path, create=False))

    @classmethod
    def _verified(cls, log: EventLog, *, one_run: bool = False) -> Self:
        ledger = cls(log, one_run=one_run)
        try:
            ledger._read()
        except LedgerError:
            log.close()
            raise
        return ledger

    def close(self) -> None:
        self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def path(self) -> Path:
        return self._log.path

    def head(self) -> str:
        """The hash that stands for all current entries; empty if there are none."""
        self._read()
        return self._log.head

    def rows(self) -> list[Row]:
        """Every entry as stored, with its hash; LedgerError if one was edited or removed. For an export."""
        return self._log.rows()

    def accounts(self) -> list[Account]:
        """What every data set has paid for, oldest first, also retired ones."""
        return self._read().accounts()

    def register(self, dataset: str, fingerprint: str, public_size: int, **more: Any) -> int:
        """Enter one data set, see `DataDeclaration` and `register_all`; returns its public size."""
        return self.register_all([DataDeclaration(dataset, fingerprint, public_size, **more)])[0]

    def register_all(self, registrations: Sequence[DataDeclaration]) -> list[int]:
        """Enter data sets on their first use, all or none; returns their public sizes, as declared then.

        LedgerError if another set of this ledger may hold some of the same records: what those have spent
        would not count.
        """
        with self._writing() as book:
            return [self._register(book, one) for one in registrations]

    def spent(self, dataset: str) -> tuple[Entry, ...]:
        """All that the data set has paid for, reserved or committed, with equal mechanisms merged.

        LedgerError for a data set that was never registered: a mistyped name must not look unspent.
        """
        return self.spent_all([dataset])[0]

    def spent_all(self, datasets: Iterable[str]) -> list[tuple[Entry, ...]]:
        """What each of them has paid for, see `spent`; all at the same moment."""
        book = self._read()
        return [self._held(book, dataset).spent for dataset in datasets]

    def spent_elsewhere(self, datasets: Iterable[str], run: str) -> list[tuple[Entry, ...]]:
        """What each of them has paid for in other runs than `run`; all at the same moment."""
        book = self._read()
        held = [self._held(book, dataset).rounds.values() for dataset in datasets]
        return [merge(paid.entry for paid in rounds if paid.run != run) for rounds in held]

    def of_one_run(self) -> bool:
        """Whether this ledger was made for one run, is open for that run, and has entries of no other.

        It then does not say what other runs have spent on the same data.
        """
        return self._one_run and self._read().of_one_run

    def arithmetics(self, datasets: Iterable[str]) -> list[str]:
        """For each data set, the weakest of `ARITHMETICS` under which it has paid."""
        book = self._read()
        return [arithmetic_of(self._held(book, dataset).rounds.values()) for dataset in datasets]

    def reserve(
        self,
        dataset: str,
        run: str,
        server_round: int,
        entry: Entry,
        budget: Budget | None,
    ) -> Reservation:
        """Pay for as many of the entry's steps as still fit `budget`, in one transaction, on disk.

        budget None: training without protection. All steps are noted, however many; from then on no epsilon
        holds for these data.
        Raises BudgetExhaustedError if not even one step fits, DeclinedError for a round of this run that was
        reserved before (a replay) and for data that were trained without protection before, LedgerError if
        nothing can be written.
        """
        (paid,) = self.reserve_all([ReservationRequest(dataset, run, server_round, entry, budget)])
        if isinstance(paid, DeclinedError):
            raise paid
        return paid

    def reserve_all(self, requests: Sequence[ReservationRequest]) -> list[Reservation | DeclinedError]:
        """Pay for several rounds in one transaction. For each, returns its reservation, or why there is none.

        A round that was paid for before gives RoundTakenError, unless it is a repetition (see
        `ReservationRequest`) whose key is still kept: that gets its original reservation and key.
        LedgerError if nothing can be written; then nothing is paid for.
        """
        with self._writing() as book:
            return [self._reserve_or_decline(book, request) for request in requests]

    def commit(self, reservation: Reservation) -> None:
        """Note that the reserved steps were taken and their result is about to leave.

        LedgerError if the reservation is unknown, was committed before, or its data set was retired in
        between. The result must then not leave.
        """
        self.commit_all([reservation])

    def commit_all(self, reservations: Iterable[Reservation]) -> None:
        """Commit several, all or none. Their keys stay as they are, see `erase_keys`."""
        with self._writing() as book:
            for reservation in reservations:
                if not reservation.committed:
                    self._commit(book, reservation.id)

    def erase_keys(self, run: str, up_to_round: int) -> None:
        """Erase the keys of the run's rounds up to that one, of all data sets, from every byte of the file.

        After that nobody can repeat those rounds, nor remove their noise. Call it when their results are
        stored durably, and before anything leaves. Calling it again changes nothing.
        LedgerError if it cannot be written; then no key is erased.
        """
        with self._writing() as book:
            self._erase_keys(book, lambda dataset, paid: paid.run == run and paid.server_round <= up_to_round)

    def split_key(self) -> bytes:
        """32 secret bytes that decide which units are for testing, always the same in this file."""
        with self._writing():
            return hashlib.blake2b(b"test records", key=self._log.secret(), digest_size=32).digest()

    def retirements(self) -> int:
        """How many accounts were retired in this ledger, of all data sets: a name is quickly changed."""
        return self._read().retirements

    def retire(self, dataset: str) -> None:
        """End the data set's account, so that its next use begins a new one with nothing spent.

        The entries stay, because spent privacy stays spent; but the new account's limit does not count them.
        The keys of the old payments are erased. LedgerError if no such data set is in use.
        """
        with self._writing() as book:
            self._held(book, dataset)
            self._erase_keys(book, lambda holder, paid: holder == dataset)
            self._append(book, "retire", dataset)

    def _read(self) -> AccountBook:
        """The current accounts, including what other processes have added."""
        events = self._log.new_events()
        try:
            for event in events:
                self._book.add(event)
        except LedgerError as error:
            raise LedgerError(f"{self._log.path}: {error}") from None
        return self._book

    @contextmanager
    def _writing(self) -> Iterator[AccountBook]:
        """A transaction, and the accounts in it. If it fails, nothing is kept, neither here nor on disk."""
        try:
            with self._log.writing():
                yield self._read()
        except BaseException:
            self._book, self._keys = AccountBook(), PaymentKeys(self._log.database)
            self._log.forget()
            raise

    def _register(self, book: AccountBook, new: DataDeclaration) -> int:
        held = book.in_use.get(new.dataset)
        if held and held.opened.fingerprint == new.fingerprint:
            return held.opened.public_size
        part = book.identities.part(new.source or new.dataset, new.cut) if new.cut else None
        identity = Identity.of(new, self._log.secret(), part)
        if held and held.opened.identity.is_of_same_files(identity):
            return held.opened.public_size
        if reason := book.identities.conflict(identity):
            raise LedgerError(f"{self._log.path}: {reason}")
        # Defaults, and what an earlier part has, are omitted, as in older ledgers.
        usual = {"unit": RECORD, "persons": "", "files": part.files if part else ""}
        said = {key: value for key, value in asdict(identity).items() if usual.get(key) != value}
        self._append(book, "register", **said, public_size=new.public_size)
        return new.public_size

    def _reserve_or_decline(
        self, book: AccountBook, request: ReservationRequest
    ) -> Reservation | DeclinedError:
        try:
            return self._paid_before(book, request) or self._reserve(book, request)
        except DeclinedError as declined:
            return declined

    def _reserve(self, book: AccountBook, request: ReservationRequest) -> Reservation:
        """Pay with a new key, which is stored beside the entry if the round may be repeated."""
        held, budget, entry = self._held(book, request.dataset), request.budget, request.entry
        if budget is None:
            kind, noted = UNPROTECTED, _unprotected(entry)
        else:
            entry = _fitting(entry, budget, held)
            limit = {key: value for key, value in asdict(budget).items() if value is not None}
            kind, noted = SHARED if entry.shared else "reserve", {"budget": limit, **entry.to_dict()}
        repeatable = {"inputs": request.inputs} if request.inputs else {}
        place = {"run": request.run, "round": request.server_round, "arithmetic": request.arithmetic}
        number = self._append(book, kind, request.dataset, **place, **noted, **repeatable)
        paid = Reservation(number, entry, new_key())
        if repeatable:
            self._keys.keep(number, paid.key)
        return paid

    def _paid_before(self, book: AccountBook, request: ReservationRequest) -> Reservation | None:
        """The reservation of a round that was paid for before, if its result would be the same.

        None if it was not paid for; RoundTakenError if its result would differ. It would, too, if its key was
        erased, or never kept (older fl_dp): with a new key it would be a second release.
        """
        held = self._held(book, request.dataset)
        paid = book.taken(request.dataset, request.run, request.server_round)
        if paid is None:
            return None
        same_result = request.inputs and request.inputs == paid.inputs
        # a retired account of this name may have paid for it
        key = self._keys.get(paid.id) if same_result and paid.id in held.rounds else None
        if key is None:
            raise RoundTakenError(
                f"Round {request.server_round} of run {request.run} was already taken; it is not repeated."
            )
        return Reservation(paid.id, paid.entry, key, paid.committed)

    def _erase_keys(self, book: AccountBook, which: Callable[[str, LedgerRound], bool]) -> None:
        """Erase the keys of the rounds that `which` selects by the data set that paid, and the round."""
        self._keys.erase(lambda number: which(*book.paid(number)))

    def _commit(self, book: AccountBook, number: int) -> None:
        dataset = book.holder(number)
        if dataset is None:
            raise LedgerError(f"{self._log.path}: entry {number} is not open to be committed.")
        self._append(book, "commit", dataset, reserved=number)

    def _held(self, book: AccountBook, dataset: str) -> OpenAccount:
        """The account of a data set in use; LedgerError for an unknown one."""
        if dataset not in book.in_use:
            raise LedgerError(f"{self._log.path}: data set {dataset} is not registered.")
        return book.in_use[dataset]

    def _append(self, book: AccountBook, kind: str, dataset: str, **fields: Any) -> int:
        time = datetime.now(UTC).isoformat(timespec="seconds")
        more = {ONE_RUN: True} if self._one_run else {}
        event = self._log.append({"kind": kind, "time": time, "dataset": dataset, **fields, **more})
        book.add(event)
        return event.id


def _fitting(entry: Entry, budget: Budget, held: OpenAccount) -> Entry:
    """As many of the steps as fit; DeclinedError if none do, or if no epsilon holds for the data."""
    if run := held.unprotected_in:
        raise DeclinedError(
            f"These data were trained without protection in run {run}; no epsilon holds for them any "
            "more. Their operator may start over (fl-dp ledger retire); what is spent cannot be undone."
        )
    steps = budget.steps_that_fit(entry, held.spent)
    if steps == 0:
        raise BudgetExhaustedError(f"Not one more step fits: {budget.in_words(held.spent)}.")
    return entry.taking(steps)


def _unprotected(entry: Entry) -> dict[str, Any]:
    """What is noted of steps without protection. None is refused, but all must be without noise."""
    if entry.private:
        raise LedgerError(f"noise multiplier {entry.noise_multiplier:g}: steps with noise need a budget.")
    return {"sample_rate": entry.sample_rate, "steps": entry.steps}
