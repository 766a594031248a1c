"""The values that go into a ledger and come out of it."""

import pytest

from fl_dp.accounting.budget import Budget
from fl_dp.accounting.ledger.requests import Reservation, ReservationRequest
from fl_dp.errors import ConfigError
from fl_dp.records import Entry

REQUEST = ReservationRequest(
    "digits", "run-1", 3, (0.1, 2.0), 7, Budget(3.0, 1e-5, "pld"), shares=4, copies=2
)  # fmt: skip


def test_a_requests_entry_is_of_its_mechanism_with_the_steps_that_are_paid():
    assert REQUEST.entry(5) == Entry(0.1, 2.0, 5, shares=4, copies=2)
    with pytest.raises(ConfigError, match="steps=0"):
        REQUEST.entry(0)


def test_a_reservations_key_is_never_printed():
    key = bytes(range(1, 33))
    shown = repr(Reservation(1, REQUEST.entry(5), key))
    assert "key" not in shown
    assert repr(key)[2:-1] not in shown
