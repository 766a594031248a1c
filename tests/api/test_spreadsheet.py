import pytest

from fl_dp.api.predicting import disarmed


@pytest.mark.parametrize(
    "cell",
    [
        "=1+1", "+cmd", "+1+1", "+5", "-x", "-1+cmd", "-", "-1_0", "@SUM(A1)", "\tx", "\t=1", "\r=1", "  =1",
        " -1", "-1\n",
    ],
)  # fmt: skip
def test_formulas_are_disarmed(cell: str) -> None:
    assert disarmed(cell) == f"'{cell}"


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("", ""), (None, ""), (True, "true"), (-2, "-2"), (float("inf"), "inf"), (float("-inf"), "-inf"),
        ("-1.5", "-1.5"), ("-1.5e-3", "-1.5e-3"), ("1e-05", "1e-05"), ("a=b", "a=b"), ("NOT PRIVATE",) * 2,
    ],
)  # fmt: skip
def test_numbers_and_words_stay(value: object, cell: str) -> None:
    assert disarmed(value) == cell
