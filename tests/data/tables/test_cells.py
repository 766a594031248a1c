import numpy as np
import pytest

from fl_dp.data.tables.cells import codes_of, numbers_of, plain


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("63", "63.0"),
        ("63", "6.3e1"),
        (".7", "0.70"),
        ("-0", "0"),
        ("+5", "5"),
        ("100000", "1E5"),
        ("1" + 30 * "0", "1e30"),
    ],
)
def test_a_number_has_one_text(one: str, other: str) -> None:
    assert plain(one) == plain(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1", "1.0000000000000000000000000000000000001"),
        ("12345678901234567890", "12345678901234567891"),
        ("1", "-1"),
        ("a", "A"),
        ("", "0"),
    ],
)
def test_other_cells_stay_apart(one: str, other: str) -> None:
    assert plain(one) != plain(other)


@pytest.mark.parametrize("text", ["", "nan", "inf", "1_0", "0x1", "1,5", "x", "1e99999", "9" * 500])
def test_what_is_no_number_stays_as_it_is(text: str) -> None:
    assert plain(text) == text


def test_a_declared_number_means_all_ways_to_write_it_and_a_text_only_itself() -> None:
    cells = np.array(["1", "1.0", "01", "x", "2"], dtype=object)
    assert codes_of(cells, [[1], ["x"]]).tolist() == [0, 0, 0, 1, -1]
    assert codes_of(cells, [["1"], ["x", 2]]).tolist() == [0, -1, -1, 1, 1]


def test_with_decimal_commas_a_point_makes_no_number() -> None:
    cells = np.array(["1,5", "-,5e1", "12", "1.5", "1.234,5", "1,234,567"], dtype=object)
    assert numbers_of(cells, ",")[:3].tolist() == [1.5, -5.0, 12.0]
    assert np.isnan(numbers_of(cells, ",")[3:]).all()
    assert np.isnan(numbers_of(cells)[[0, 1, 4, 5]]).all()
    assert numbers_of(np.array(["1.5", "1e3", "?", "", "True"], dtype=object)).tolist()[:2] == [1.5, 1000.0]


def test_with_decimal_commas_a_declared_number_has_one_and_a_text_is_as_it_stands() -> None:
    cells = np.array(["1,50", "1.5", "k.A.", "2"], dtype=object)
    assert codes_of(cells, [[1.5], ["k.A."], [2]], ",").tolist() == [0, -1, 1, 2]
    assert codes_of(cells, [["1,50"], ["1.5"]], ",").tolist() == [0, 1, -1, -1]
    assert codes_of(cells, [[1.5]]).tolist() == [-1, 0, -1, -1]
