"""What may be told of classes and subgroups: against all ways to part them, and against linear algebra."""

from itertools import combinations, product

import numpy as np
import pytest

from fl_dp.records import LEAST_CELL
from fl_dp.tasks.small_cells import least_parting, told_by_class, told_cells


def told(codes, *sizes, owners=()):
    return [list(map(bool, mask)) for mask in told_cells(np.array(codes, dtype=np.int64), sizes, owners)]


def repeated(table):
    """Rows of codes, each as often as the table says."""
    return [row for row, count in table.items() for _ in range(count)]


def published(codes, masks):
    """(numbers that can be told, n): for each which records it is the sum of; the first of all of them."""
    rows = [np.ones(len(codes))]
    for column, mask in enumerate(masks):
        rows += [codes[:, column] == cell for cell in np.flatnonzero(mask)]
    return np.array(rows, dtype=float)


def told_of_few(codes, masks, few):
    """Whether some weighing of what is told depends on those records alone.

    So it is where the rows have a lower rank without these records.
    """
    rows = published(codes, masks)
    return np.linalg.matrix_rank(rows) > np.linalg.matrix_rank(rows[:, ~few])


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([LEAST_CELL, LEAST_CELL, 30], [True, True, True]),
        ([LEAST_CELL - 1, 1, 30, LEAST_CELL], [False, False, True, True]),
        ([0, LEAST_CELL, 30], [False, True, True]),
        ([LEAST_CELL - 1, 40, 30, 50], [False, True, False, True]),  # the least of the others with it
        ([1, 1, 30, 50], [False, False, False, True]),  # two of one are two records
        ([5, 0, 0], [False, False, False]),
        ([LEAST_CELL - 1, 100], [False, False]),
    ],
)
def test_of_one_column(sizes, expected):
    codes = np.repeat(np.arange(len(sizes)), sizes)[:, None]
    assert told(codes, len(sizes)) == [expected]


def test_a_subgroup_within_another_hides_what_they_differ_in():
    """Women less those of the maternity ward are ten women of other wards."""
    maternity, others, women, men = 0, 1, 0, 1
    table = {(women, maternity): 90, (women, others): 10, (men, others): 100}
    assert told(repeated(table), 2, 2) == [[True, True], [False, False]]
    assert told(repeated({**table, (women, others): LEAST_CELL}), 2, 2) == [[True, True], [True, True]]
    one_less = {**table, (women, others): LEAST_CELL - 1}
    assert told(repeated(one_less), 2, 2) == [[True, True], [False, False]]


def test_columns_of_which_the_third_follows_from_two_are_not_all_told():
    """Each pair of columns is harmless; all three tell each quarter."""
    quarter = LEAST_CELL - 1
    codes = np.array(repeated({(a, b, a ^ b): quarter for a, b in product((0, 1), repeat=2)}))
    masks = told_cells(codes, (2, 2, 2))
    assert [mask.all() for mask in masks] == [True, True, False]
    one = (codes == (0, 0, 0)).all(1)
    assert told_of_few(codes, [np.ones(2, dtype=bool)] * 3, one)  # had all been told
    assert not told_of_few(codes, masks, one)


@pytest.mark.parametrize("seed", range(30))
def test_nothing_told_depends_on_few_records(seed, monkeypatch):
    """All sets of kinds of records with fewer than that many, by ranks of matrices."""
    monkeypatch.setattr("fl_dp.tasks.small_cells.LEAST_CELL", 5)
    random = np.random.default_rng(seed)
    sizes = tuple(random.integers(2, 4, size=3))
    kinds = np.array(list(product(*map(range, sizes))))
    kinds = kinds[random.random(len(kinds)) < 0.7][:12]
    counts = random.integers(1, 9, size=len(kinds))
    codes, kind = np.repeat(kinds, counts, axis=0), np.repeat(np.arange(len(kinds)), counts)
    masks = told_cells(codes, sizes)
    for size in range(1, 5):
        for few in combinations(range(len(kinds)), size):
            if counts[list(few)].sum() < 5:
                assert not told_of_few(codes, masks, np.isin(kind, few)), few


@pytest.mark.parametrize("columns", [1, 2])
def test_nothing_told_by_class_depends_on_few_records(columns, monkeypatch):
    """As above, with a row for each class within each cell; and something is told by class."""
    monkeypatch.setattr("fl_dp.tasks.small_cells.LEAST_CELL", 5)
    outcomes = []
    for seed in range(60):
        random = np.random.default_rng(seed)
        kinds = np.array(list(product(range(2), *map(range, random.integers(2, 4, size=columns)))))
        counts = random.integers(0, 14, size=len(kinds))
        codes, kind = np.repeat(kinds, counts, axis=0), np.repeat(np.arange(len(kinds)), counts)
        classes, *masks = told_cells(codes, tuple(kinds.max(0) + 1))
        if not classes.all():
            continue
        fine = told_by_class(codes[:, 1:], tuple(masks), codes[:, 0])
        outcomes += fine
        rows = [published(codes, (classes, *masks))]
        for place, mask in enumerate(masks):
            if fine[place]:
                rows += [rows[0][1 + y] * published(codes[:, [1 + place]], (mask,))[1:] for y in (0, 1)]
        told = np.concatenate(rows)
        for size in range(1, 5):
            for few in combinations(range(len(kinds)), size):
                if counts[list(few)].sum() < 5:
                    outside = told[:, ~np.isin(kind, few)]
                    assert np.linalg.matrix_rank(told) == np.linalg.matrix_rank(outside), (seed, few)
    assert {True, False} == set(outcomes)


def test_columns_that_are_alike_within_a_class_tell_of_the_few_in_which_they_differ():
    """Recall of both: the ill in one column's first cell less those in the other's."""
    for differ, fine in ((LEAST_CELL // 2 - 1, False), (LEAST_CELL // 2, True)):
        table = {(0, a, b): 50 for a, b in product((0, 1), repeat=2)} | {(1, 0, 0): 50, (1, 1, 1): 50}
        codes = np.array(repeated(table | {(1, 0, 1): differ, (1, 1, 0): differ}))
        classes, *masks = told_cells(codes, (2, 2, 2))
        assert all(mask.all() for mask in (classes, *masks))  # of both classes together all is well
        assert told_by_class(codes[:, 1:], tuple(masks), codes[:, 0]) == (fine, fine)


def test_by_class_a_person_counts_once_and_a_class_of_few_has_nothing_told():
    all_told = (np.ones(1, dtype=bool),)
    for few in (LEAST_CELL - 1, LEAST_CELL):
        one_cell = np.zeros((100, 1), dtype=np.int64)
        assert told_by_class(one_cell, all_told, np.arange(100) // (100 - few)) == (few == LEAST_CELL,)
    codes, classes = np.arange(160)[:, None] % 2, np.arange(160) // 80
    told = (np.ones(2, dtype=bool),)
    owners = tuple(f"{i % 80}" for i in range(160))
    assert told_by_class(codes, told, classes, owners) == (True,)
    few = tuple(owner if int(owner) % 2 else f"x{int(owner) % (LEAST_CELL - 1)}" for owner in owners)
    assert told_by_class(codes, told, classes, few) == (False,)


@pytest.mark.parametrize("sizes", [(3, 2, 4), (1000, 2, 5)])
def test_all_is_told_where_columns_do_not_hang_together_and_a_thousand_classes_take_no_minutes(sizes):
    random = np.random.default_rng(0)
    codes = np.stack(
        [random.integers(0, size, 50_000) for size in sizes], axis=1
    )  # each class has 20 and more
    assert all(mask.all() for mask in told_cells(codes, sizes))


@pytest.mark.parametrize("seed", range(20))
def test_the_least_parting_is_that_of_all(seed):
    random = np.random.default_rng(seed)
    table = random.integers(0, 9, size=(6, 4)).astype(float) * (random.random((6, 4)) < 0.6)
    before = table.copy()

    def pairs(side):
        within = table[list(side)].sum(0)
        return np.minimum(within, table.sum(0) - within).sum()

    sides = [side for size in range(1, 6) for side in combinations(range(6), size)]
    found, side = least_parting(table)
    assert found == pairs(side) == min(map(pairs, sides))
    assert (table == before).all()


def test_persons_count_where_records_are_persons():
    codes = np.repeat([0, 1], 60)[:, None]
    many = tuple(f"{i}" for i in range(120))
    few = tuple(f"{i % LEAST_CELL}" for i in range(60)) + tuple(f"x{i % (LEAST_CELL - 1)}" for i in range(60))
    assert told(codes, 2, owners=many) == [[True, True]]
    assert told(codes, 2, owners=few) == [[False, False]]
    assert told(codes, 2, owners=tuple(f"{i % LEAST_CELL}{i // 60}" for i in range(120))) == [[True, True]]
