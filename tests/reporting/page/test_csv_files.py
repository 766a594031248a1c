"""The tables as CSV files, as pandas reads them."""

from pathlib import Path

import pandas as pd
import pytest

from fl_dp.errors import ConfigError
from fl_dp.records import LEAST_CELL
from fl_dp.reporting.page.csv_files import write_csv_files
from fl_dp.reporting.page.pieces import LISTED

from .conftest import Make, change_summary

TABLES = {
    "runs", "launches", "digests", "clients", "mechanisms", "rounds", "reasons", "data", "columns", "parts",
    "settings", "roc-server", "calibration-server", "confusion-server", "roc-sites", "calibration-sites",
    "confusion-sites",
}  # fmt: skip


def tables_in(folder: Path) -> dict[str, pd.DataFrame]:
    return {file.stem: pd.read_csv(file) for file in folder.iterdir()}


def test_pandas_reads_all_rows_with_all_digits(make: Make, tmp_path: Path) -> None:
    many = [f"c{number}" for number in range(LISTED + 300)]
    one = make(clients=["=HYPERLINK(1)", 'a,"b"', *many])
    other = make("b", private=False, metrics={"f1": 1 / 3})
    change_summary(one, lambda said: said["clients"]["c7"].update(epsilon=1.23456789))
    write_csv_files([one, other], tmp_path / "out")
    found = tables_in(tmp_path / "out")
    assert found.keys() == TABLES
    clients = found["clients"].set_index(["folder", "client"])
    assert set(clients.loc["run"].index) == {"'=HYPERLINK(1)", 'a,"b"', *many}
    assert clients.loc[("run", "c7"), "together"] == 1.23456789
    assert clients.loc["b"][["together", "private"]].values.tolist() == [[float("inf"), "NOT PRIVATE"]] * 2
    rounds = found["rounds"].set_index("folder")  # of both: what one run does not have is empty
    assert rounds.loc["run", "accuracy"].tolist() == [0.1, 0.2, 0.1 * 3]
    assert rounds["f1"].dropna().tolist() == [1 / 3] * 3
    assert found["runs"]["epsilon"].tolist() == [0.75 + 0.001 * 99, float("inf")]
    assert found["data"]["declared size"].tolist() == [100] * (len(many) + 4)


def test_classes_are_lines_and_small_ones_have_no_value(make: Make, tmp_path: Path) -> None:
    told = {"accuracy-per-class[ill]": 1 / 7, "accuracy-per-class[rare]": None}
    write_csv_files([make(metrics=told, suppressed_below=LEAST_CELL)], tmp_path / "out")
    parts = tables_in(tmp_path / "out")["parts"]
    assert parts["class or subgroup"].tolist() == ["ill", "rare"]
    assert parts["value"].dropna().tolist() == [1 / 7]


def test_of_other_runs_nothing_is_left_in_the_folder(make: Make, tmp_path: Path) -> None:
    out = tmp_path / "out"
    write_csv_files([make(reason="no budget is left")], out)
    assert len(tables_in(out)["reasons"]) == 1
    write_csv_files([make("calm")], out)
    assert len(tables_in(out)["reasons"]) == 0


@pytest.mark.parametrize(
    ("place", "words"),
    [("all.csv", "name a folder"), ("run/config.toml", "name a folder"), ("no/where", "No such file")],
)
def test_where_it_cannot_be_written_is_said(make: Make, tmp_path: Path, place: str, words: str) -> None:
    folder = make()
    with pytest.raises(ConfigError, match=rf"--csv .*{place}: .*{words}"):
        write_csv_files([folder], tmp_path / place)
    assert not (tmp_path / "all.csv").exists()
