"""Traces follow their records into a part, and hold nothing that other data have by chance."""

import numpy as np

from fl_dp.data.traces.columns import of_columns
from fl_dp.data.traces.traces import NOTHING, Cells, Traces, agreement, of_contents

DRAW = np.random.default_rng(0)
COLUMNS = {name: DRAW.integers(0, 10**6, 80).astype(str).astype(object) for name in "abcdef"}


def test_a_part_has_the_traces_of_its_own_records() -> None:
    rows = np.array([5, 70, 3, 41])
    part = of_columns(80, COLUMNS.items()).at(rows)
    alone = of_columns(4, [(name, column[rows]) for name, column in COLUMNS.items()])
    assert part.records == 4
    assert np.array_equal(part.records_of, alone.records_of)
    contents = [(bytes([row]), bytes([row, row])) for row in range(80)]
    found = of_contents(contents).at(rows)
    assert set(found.digests()) == set(of_contents([contents[row] for row in rows]).digests())
    assert sorted(found.owners.tolist()) == [0, 0, 1, 1, 2, 2, 3, 3]


def test_what_many_records_hold_is_no_trace() -> None:
    own = [(b"heading", b"twice" if row < 2 else bytes([row])) for row in range(9)]
    assert len(of_contents(own).digests()) == 8


def test_columns_in_which_many_agree_leave_no_trace() -> None:
    ages, sex = DRAW.integers(20, 60, 500), DRAW.integers(0, 2, 500)
    table = [("age", ages.astype(str).astype(object)), ("sex", sex.astype(str).astype(object))]
    assert of_columns(500, table).digests() == []


def test_two_columns_that_tell_records_apart_are_enough_and_known_beside_a_third() -> None:
    cells = [DRAW.integers(0, 10**6, 500).astype(str).astype(object) for _ in range(3)]
    names = ["paid", "owed", "due"]
    two = of_columns(500, list(zip(names, cells, strict=False))[:2]).digests()
    three = of_columns(500, list(zip(names, cells, strict=True))).digests()
    assert len(two) >= 500
    assert set(two) & set(three)


def test_the_strongest_column_of_a_set_is_judged_without_the_rest_of_its_group() -> None:
    """Here the rest tells records apart beside the second cell: sums of both differ, differences do not."""
    strong = DRAW.integers(1, 2**60, 400, dtype=np.uint64)
    number = np.arange(400, dtype=np.uint64)
    second = 100 * (1 + number // 20)
    rest = second - number % 20 - 1
    alone = np.zeros(400, dtype=np.uint64)
    cells = Cells(np.stack([strong + rest, second], axis=1), np.stack([rest, alone], axis=1), least=2)
    assert len(Traces(400, (cells,), records_of=strong).digests()) == 400


def test_agreement_is_that_of_two_different_records() -> None:
    hashes = np.array([1, 1, 1, 2, NOTHING, NOTHING], dtype=np.uint64)
    assert agreement(hashes) == 0.5  # 6 of 12 ordered pairs
    assert agreement(hashes[4:]) == 1
