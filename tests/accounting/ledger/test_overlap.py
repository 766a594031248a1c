"""Sketches: sets that share many records are distinguished from sets that share few, whatever their sizes."""

import hashlib

import pytest

from fl_dp.accounting.ledger.overlap import share_many, sketch

KEY = b"a ledger's own key"


def records(*numbers: range) -> list[bytes]:
    return [hashlib.sha256(str(n).encode()).digest() for part in numbers for n in part]


@pytest.mark.parametrize(
    ("one", "other", "many"),
    [
        (range(20_000), range(20_000), True),
        (range(20_000), range(1, 20_000), True),  # one record taken out
        (range(20_000), range(16_000, 36_000), True),  # a fifth of either
        (range(20_000), range(19_000, 39_000), False),  # a twentieth
        (range(20_000), range(20_000, 40_000), False),
        (range(20_000), range(500), True),  # a fortieth of the larger, all of the smaller
        (range(100), range(80, 180), True),  # both are in their sketches whole
        (range(100), range(95, 195), False),
        (range(1), range(1), True),
    ],
)
def test_many_shared_records_are_found(one: range, other: range, many: bool) -> None:
    """With this key, for good: the numbers are random, but no others are drawn in the next run."""
    first, second = sketch(records(one), KEY), sketch(records(other), KEY)
    assert share_many(first, second) is share_many(second, first) is many


def test_a_sketch_is_of_a_set_and_its_key_and_of_one_length_for_good() -> None:
    """One of another length could not be compared with those that ledgers hold already."""
    some = records(range(2000))
    known = sketch(some, KEY)
    assert len(known) == 1024 * 16
    assert sketch(reversed(some), KEY) == sketch([*some, *some], KEY) == known
    assert not share_many(known, sketch(some, b"another key"))
    assert not share_many(known, "")
    assert not share_many("", "")
