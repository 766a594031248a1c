"""What the data on this machine have spent, over all runs: a wall, not an alarm.

Keyed by data set and not by run, because privacy is spent by the data. A round is paid for in
two entries: reserved before training, committed before its result leaves. What was reserved and never
committed counts as spent, whatever happened in between.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fl_dp.accounting.budget import Budget
from fl_dp.accounting.event_log import Event, EventLog
from fl_dp.accounting.events import merge
from fl_dp.errors import BudgetExhaustedError, DeclinedError, LedgerError
from fl_dp.records import Entry

Mechanism = tuple[float, float]  # sample rate, noise multiplier


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
        ledger = cls(EventLog.open(path))
        try:
            ledger.verify()
        except LedgerError:
            ledger.close()
            raise
        return ledger

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
        return len(self._log.events())

    def register(self, dataset: str, fingerprint: str, public_size: int) -> int:
        """Enter a data set on its first use; returns its public size, as declared then.

        fingerprint: of the contents, so that a changed or renamed set is noticed. LedgerError when the
        name stands for other data, or the data for another name: their spending would start at zero.
        """
        with self._log.writing():
            known = [event.content for event in self._log.events() if event.content["kind"] == "register"]
            for entry in known:
                if entry["dataset"] == dataset and entry["fingerprint"] == fingerprint:
                    size: int = entry["public_size"]
                    return size
                _refuse_confusion(self._log.path, entry, dataset, fingerprint)
            self._append("register", dataset, fingerprint=fingerprint, public_size=public_size)
        return public_size

    def spent(self, dataset: str) -> tuple[Entry, ...]:
        """All that the data set has paid for, reserved or committed, equal mechanisms merged.

        LedgerError for a data set that was never registered: a mistyped name must not look unspent.
        """
        events = self._log.events()
        self._check_registered(events, dataset)
        return _spent(events, dataset)

    def reserve(
        self, dataset: str, run: str, server_round: int, mechanism: Mechanism, planned: int, budget: Budget
    ) -> Reservation:
        """Pay for as many of the `planned` steps as still fit `budget`, in one transaction, on disk.

        Raises BudgetExhaustedError when not one fits, DeclinedError for a round of this run that was
        reserved before (a replay), LedgerError when nothing can be written.
        """
        with self._log.writing():
            events = self._log.events()
            self._check_registered(events, dataset)
            _check_new_round(events, dataset, run, server_round)
            spent = _spent(events, dataset)
            steps = budget.steps_that_fit(*mechanism, planned, spent)
            if steps == 0:
                raise BudgetExhaustedError(
                    f"Not one more step fits: epsilon {budget.epsilon_of(spent):.4f} of {budget.epsilon:g} "
                    f"is spent at delta {budget.delta:g}."
                )
            entry = Entry(*mechanism, steps)
            number = self._append("reserve", dataset, run=run, round=server_round, **entry.to_dict())
        return Reservation(number, entry)

    def commit(self, reservation: Reservation) -> None:
        """Note that the reserved steps were taken and their result is about to leave."""
        with self._log.writing():
            events = self._log.events()
            reserved = {event.id: event.content for event in events if _is(event, "reserve")}
            committed = {event.content["reserved"] for event in events if _is(event, "commit")}
            if reservation.id not in reserved.keys() - committed:
                raise LedgerError(f"{self._log.path}: entry {reservation.id} is not open to be committed.")
            self._append("commit", reserved[reservation.id]["dataset"], reserved=reservation.id)

    def _check_registered(self, events: list[Event], dataset: str) -> None:
        if not any(_is(event, "register") and event.content["dataset"] == dataset for event in events):
            raise LedgerError(f"{self._log.path}: data set {dataset} is not registered.")

    def _append(self, kind: str, dataset: str, **fields: Any) -> int:
        time = datetime.now(UTC).isoformat(timespec="seconds")
        return self._log.append({"kind": kind, "time": time, "dataset": dataset, **fields})


def _is(event: Event, kind: str) -> bool:
    return bool(event.content["kind"] == kind)


def _check_new_round(events: list[Event], dataset: str, run: str, server_round: int) -> None:
    taken = (event.content for event in events if _is(event, "reserve"))
    if any((c["dataset"], c["run"], c["round"]) == (dataset, run, server_round) for c in taken):
        raise DeclinedError(f"Round {server_round} of run {run} was taken before; it is not repeated.")


def _spent(events: list[Event], dataset: str) -> tuple[Entry, ...]:
    contents = [
        event.content for event in events if _is(event, "reserve") and event.content["dataset"] == dataset
    ]
    return merge(Entry(c["sample_rate"], c["noise_multiplier"], c["steps"]) for c in contents)


def _refuse_confusion(path: Path, entry: Any, dataset: str, fingerprint: str) -> None:
    """LedgerError if name and contents disagree with an entry."""
    if entry["dataset"] == dataset:
        raise LedgerError(
            f"{path}: data set {dataset} is entered with other contents. Restore the data, or give the "
            "changed set a ledger of its own; records in both sets then spend twice."
        )
    if entry["fingerprint"] == fingerprint:
        raise LedgerError(
            f"{path}: these data are entered as {entry['dataset']}, not {dataset}; use that name, so that "
            "what they have spent still counts."
        )
