"""A ledger with an entry of every kind, as `Ledger` writes them; no single run has them all."""

import hashlib
from collections.abc import Callable
from pathlib import Path

from fl_dp.accounting.budget import Budget
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.accounting.ledger.requests import DataDeclaration, ReservationRequest
from fl_dp.records import PROVEN, Entry

_BUDGET = Budget(3.0, 1e-5)
_RDP = Budget(5.0, 1e-6, "rdp")
_TWO_WALLS = Budget(2.0, 1e-5, epsilon_alone=20.0)
_PART = "images, part 0/2 (iid, seed 0)"


def make_ledger(path: Path) -> None:
    """A part of a set, persons, secure sums; one retired, one unprotected."""
    with Ledger.open(path) as ledger:
        ledger.register_all([
            DataDeclaration(_PART, _digest("a").hex(), 100, "images", "2 (iid, seed 0)", _digests("image")),
            DataDeclaration(
                "visits", _digest("b").hex(), 60, digests=_digests("visit"), unit="person",
                person_digests=_digests("person"),
            ),
            DataDeclaration("sums", _digest("c").hex(), 200),
            DataDeclaration("old", _digest("d").hex(), 50),
            DataDeclaration("open", _digest("e").hex(), 70),
        ])  # fmt: skip
        ledger.commit(ledger.reserve(_PART, "run-1", 1, Entry(0.1, 1.2, 10), _BUDGET))
        repeatable = ReservationRequest(
            _PART, "run-1", 2, Entry(0.1, 1.2, 10), _BUDGET, inputs="of the round"
        )
        ledger.reserve_all([repeatable])
        _pay(ledger, ReservationRequest("visits", "run-1", 1, Entry(0.2, 2.5, 7), _RDP, arithmetic=PROVEN))
        _pay(ledger, ReservationRequest("sums", "run-2", 1, Entry(0.1, 1.5, 9, 3), _TWO_WALLS))
        _pay(ledger, ReservationRequest("old", "run-1", 1, Entry(0.1, 1.0, 4), _BUDGET))
        ledger.retire("old")
        ledger.register("old", _digest("d").hex(), 50)
        _pay(ledger, ReservationRequest("old", "run-3", 1, Entry(0.1, 1.0, 4), _BUDGET))
        _pay(ledger, ReservationRequest("open", "run-3", 1, Entry(0.1, 0.0, 5), None))


def _pay(ledger: Ledger, request: ReservationRequest) -> None:
    (paid,) = ledger.reserve_all([request])
    if isinstance(paid, Exception):
        raise paid
    ledger.commit(paid)


def _digest(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()


def _digests(name: str) -> Callable[[], list[bytes]]:
    return lambda: [_digest(f"{name} {number}") for number in range(8)]
