import csv
import io

import pytest

from fl_dp.errors import ConfigError
from fl_dp.reporting.page.csv_file import csv_text, write_csv

from .conftest import Make


def test_every_row_is_there(make: Make) -> None:
    names = ["=HYPERLINK(1)", 'a,"b"', *map(str, range(500))]
    rows = list(csv.reader(io.StringIO(csv_text([make(clients=names), make("off", private=False)]))))
    clients = [row[3] for row in rows if row[0] == "run" and row[2] == "clients"]
    assert sorted(clients) == sorted(["client", "'=HYPERLINK(1)", 'a,"b"', *map(str, range(500))])
    assert {row[1] for row in rows if row[0] == "off"} == {"NOT PRIVATE"}


def test_where_it_cannot_be_written_is_said(make: Make, tmp_path) -> None:
    with pytest.raises(ConfigError, match="--csv"):
        write_csv([make()], tmp_path / "nowhere" / "a.csv")
