import csv
import io

import pytest

from fl_dp.errors import ConfigError
from fl_dp.reporting.page.csv_file import csv_text, disarmed, write_csv

from .conftest import Make


@pytest.mark.parametrize(
    "cell", ["=1+1", "+1+1", "-1+cmd", "@SUM(A1)", "\t=1", "\r=1", "  =1", "-inf", "+5", "-"]
)
def test_formulas_are_disarmed(cell: str) -> None:
    assert disarmed(cell) == f"'{cell}"


@pytest.mark.parametrize("cell", ["", "-1.5", "1e-05", "north", "a=b", "NOT PRIVATE"])
def test_numbers_and_words_stay(cell: str) -> None:
    assert disarmed(cell) == cell


def test_every_row_is_there(make: Make) -> None:
    names = ["=HYPERLINK(1)", 'a,"b"', *map(str, range(500))]
    rows = list(csv.reader(io.StringIO(csv_text([make(clients=names), make("off", private=False)]))))
    clients = [row[3] for row in rows if row[0] == "run" and row[2] == "clients"]
    assert sorted(clients) == sorted(["client", "'=HYPERLINK(1)", 'a,"b"', *map(str, range(500))])
    assert {row[1] for row in rows if row[0] == "off"} == {"NOT PRIVATE"}


def test_where_it_cannot_be_written_is_said(make: Make, tmp_path) -> None:
    with pytest.raises(ConfigError, match="--csv"):
        write_csv([make()], tmp_path / "nowhere" / "a.csv")
