"""The chain: every change of what was appended is found, and where."""

import hashlib

import pytest

from fl_dp.accounting.ledger.hash_chain import Row, chain_hash, first_broken, head


def chain(*contents):
    rows, previous = [], ""
    for number, content in enumerate(contents, start=1):
        previous = chain_hash(previous, content)
        rows.append(Row(number, content, previous))
    return rows


ROWS = chain("a", "b", "c")


def test_a_hash_covers_the_row_and_the_hash_before():
    first = hashlib.sha256(b"\na").hexdigest()
    assert ROWS[0].hash == first
    assert ROWS[1].hash == hashlib.sha256(f"{first}\nb".encode()).hexdigest()
    assert head(ROWS) == ROWS[2].hash
    assert head([]) == ""


@pytest.mark.parametrize(
    ("rows", "made", "broken"),
    [
        ([ROWS[0], ROWS[1]._replace(content="x"), ROWS[2]], 3, 2),  # edited
        ([ROWS[0], Row(2, "x", chain_hash(ROWS[0].hash, "x")), ROWS[2]], 3, 3),  # edited, with its hash
        ([ROWS[0], ROWS[2]], 3, 2),  # taken out
        ([ROWS[1], ROWS[2]], 3, 1),  # the first taken out
        (ROWS[:2], 3, 3),  # cut off
        ([], 3, 1),
        (ROWS, 3, None),
        ([], 0, None),
        (ROWS, 2, 3),  # one more than were made
        ([ROWS[1], ROWS[0], ROWS[2]], 3, 1),  # swapped
    ],
)
def test_what_is_not_as_it_was_appended_is_found(rows, made, broken):
    assert first_broken(rows, made) == broken
