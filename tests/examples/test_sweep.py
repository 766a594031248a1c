"""The example that compares settings: what it says, what it does not repeat, and what it refuses."""

import csv
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from fl_dp.errors import ConfigError

ROOT = Path(__file__).parents[2]
COMMAND = [  # two learning rates, on digits unless more words say otherwise
    str(ROOT / "examples/sweep/sweep.py"),
    "--config",
    str(ROOT / "configs/digits.toml"),
    "--vary",
    "learning-rate = [0.5, 1.0]",
    "--vary",
    "rounds = [1]",
    "--out",
    "out",
]


def swept(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *COMMAND, *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--vary", "data = ['csv:a.csv']", "--vary", "schema = ['a.toml']"], "csv:a.csv is private"),
        (
            [
                "--vary",
                "data = ['csv:a.csv']",
                "--vary",
                "schema = ['a.toml']",
                "--vary",
                "privacy = ['off']",
                "--ledger",
                "ledger",
            ],
            "all runs need privacy",
        ),
        (["--ledger", "ledger", "--seeds", "0", "1"], "give one seed"),
        (["--vary", "learning-rat = [1]"], "did you mean learning-rate"),
    ],
)
def test_what_private_records_forbid_is_refused_before_the_first_run(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [*COMMAND, *words])
    with pytest.raises((SystemExit, ConfigError), match=said):
        runpy.run_path(COMMAND[0])["main"]()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_all_runs_pay_from_one_ledger_and_none_is_repeated(tmp_path: Path) -> None:
    words = ("--ledger", "ledger", "--vary", "noise-multiplier = [4.0]")
    first = swept(tmp_path, *words)
    assert first.returncode == 0, first.stderr
    *_, total = first.stdout.splitlines()
    assert total.startswith("all runs together, by the ledger in ledger: epsilon ")
    with (tmp_path / "out" / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["learning_rate"] for row in rows] == ["0.5", "1.0"]
    assert all(float(total.split()[-1]) > float(row["epsilon spent"]) > 0 for row in rows)
    assert (tmp_path / "out" / "results.png").exists()
    ledger = (tmp_path / "ledger" / "ledger.sqlite").read_bytes()
    again = swept(tmp_path, *words)
    assert again.stdout.splitlines()[-1] == total
    assert (tmp_path / "ledger" / "ledger.sqlite").read_bytes() == ledger
    other = swept(tmp_path, *words, "--config", str(changed(tmp_path)))
    assert "was trained with another local-epochs" in other.stderr


def changed(folder: Path) -> Path:
    text = (ROOT / "configs/digits.toml").read_text()
    assert "local-epochs" in text
    file = folder / "other.toml"
    file.write_text("".join(line for line in text.splitlines(True) if not line.startswith("local-epochs")))
    return file
