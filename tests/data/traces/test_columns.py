"""The columns by which a table's records are recognised."""

import numpy as np
import pytest

from fl_dp.data.traces.columns import MOST, of_columns, value_of

DRAW = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("63", "63.0"), ("63", "6.3e1"), ("1000", "1e3"), ("-0", "0"), ("61.8", "61,8"), ("61.83", "61.8"),
        (" Ward  A ", "ward a"), ("NaN", ""), ("n/a", "?"),
    ],
)  # fmt: skip
def test_one_value_has_one_text(one: str, other: str) -> None:
    assert value_of(one) == value_of(other)


@pytest.mark.parametrize(("one", "other"), [("63", "64"), ("123456", "123457"), ("61.8", "61.9"), ("0", "")])
def test_values_that_differ_have_two(one: str, other: str) -> None:
    assert value_of(one) != value_of(other)


def cells(values: object) -> np.ndarray:
    return np.array([str(value) for value in values], dtype=object)  # type: ignore[attr-defined]


def test_columns_that_other_tables_have_as_well_are_left_out() -> None:
    numbering, constant, ages = cells(range(7, 407)), cells(["2026"] * 400), cells(DRAW.integers(0, 90, 400))
    named = of_columns(400, [("id", numbering), ("date", constant), ("age", ages)])
    alone = of_columns(400, [("age", ages)])
    assert np.array_equal(named.records_of, alone.records_of)
    assert of_columns(400, [("id", cells(f"P{number:04}" for number in range(400)))]).cells == ()


def test_the_choice_is_the_same_in_any_order_and_under_other_names() -> None:
    table = [(f"c{number}", cells(DRAW.normal(size=300).round(2))) for number in range(12)]
    one, other = of_columns(300, table), of_columns(300, table[::-1])
    assert [choice.hashes.shape[1] for choice in one.cells[::2]] == [MOST] * 2
    assert set(one.digests()) == set(other.digests())
    renamed = of_columns(300, [(f"x{name}", values) for name, values in table])
    same = [
        np.array_equal(*(each.hashes for each in pair)) for pair in zip(one.cells, renamed.cells, strict=True)
    ]
    assert same == [False, False, True, True]


def test_one_answer_to_two_questions_is_two_cells() -> None:
    table = of_columns(45, [("a", cells("yynnn" * 9)), ("b", cells("ynyyn" * 9))])
    for choice in table.cells[1::2]:  # also where names do not count
        assert len(set(choice.hashes.sum(axis=1))) == 4


def test_of_two_columns_in_one_group_the_stronger_is_what_the_rest_lacks() -> None:
    """Hours that all meters have in common must not be all that a set of groups rests on."""
    hours, columns = cells(range(0, 900, 3)), {f"b{number}": cells([1, 2] * 150) for number in range(30)}
    weak = of_columns(300, columns.items()).cells[1]
    strong = of_columns(300, {**columns, "hours": hours}.items()).cells[1]
    assert (strong.hashes != weak.hashes).any(axis=0).sum() == 1  # one group has it
    changed = (strong.hashes != weak.hashes).any(axis=0)
    assert np.array_equal(strong.rest[:, changed], weak.hashes[:, changed])
