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
    assert np.array_equal(named.wholes, alone.wholes)
    assert of_columns(400, [("id", cells(f"P{number:04}" for number in range(400)))]).cells == ()


def test_the_choice_is_the_same_in_any_order_and_under_other_names() -> None:
    table = [(f"c{number}", cells(DRAW.normal(size=300).round(2))) for number in range(12)]
    one, other = of_columns(300, table), of_columns(300, table[::-1])
    assert [choice.shape for choice in one.cells] == [(300, MOST)] * 2
    assert set(one.digests()) == set(other.digests())
    renamed = of_columns(300, [(f"x{name}", values) for name, values in table])
    assert np.array_equal(one.cells[1], renamed.cells[1])
    assert not np.array_equal(one.cells[0], renamed.cells[0])
