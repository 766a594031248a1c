"""A run on features, from its launch to a prediction from its folder."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.data.sources.digits import load_digits

pytestmark = pytest.mark.slow

pytest.importorskip("kymatio")
SMALL = ("rounds=1", "expected-batch-size=64", "physical-batch-size=64", "epsilon=3.0")


def fl_dp(*words: str, settings: tuple[str, ...] = ()) -> "subprocess.CompletedProcess[str]":
    pairs = [word for one in settings for word in ("--set", one)]
    return subprocess.run(
        [sys.executable, "-P", "-m", "fl_dp.cli.main", *words, *pairs],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("words", [("--simulate",), ()])
def test_a_run_learns_and_its_predictions_are_what_was_measured(words, tmp_path):
    """Simulated, and with clients of their own processes."""
    out = tmp_path / "run"
    features = ("features=scatter:1", "model=norm-linear")
    run = fl_dp("run", *words, "--out", str(out), settings=(*SMALL, *features))
    assert run.returncode == 0, run.stdout + run.stderr
    assert "features scatter:1 of all records take 1 MiB" in run.stdout
    found = json.loads((out / "summary.json").read_text())
    assert found["metrics"]["accuracy"] > 0.5
    asked = fl_dp("predict", str(out), "--data", "digits", "--out", str(tmp_path / "out.csv"))
    assert asked.returncode == 0, asked.stdout + asked.stderr
    test = load_digits("test")
    with (tmp_path / "out.csv").open(newline="") as opened:
        answers = [int(line["answer"]) for line in csv.DictReader(opened)]
    right = sum(answer == label for answer, label in zip(answers, test.y.tolist(), strict=True))
    assert right / len(test) == pytest.approx(found["metrics"]["accuracy"], abs=1e-6)


def test_a_ledger_counts_runs_with_features_and_without_together(tmp_path):
    words = ("run", "--simulate", "--ledger", str(tmp_path / "ledger"))
    first = fl_dp(*words, "--out", str(tmp_path / "a"), settings=SMALL)
    assert first.returncode == 0, first.stdout + first.stderr
    spent = accounts(tmp_path / "ledger")
    again = fl_dp(*words, "--out", str(tmp_path / "b"), settings=(*SMALL, "features=scatter:1"))
    assert again.returncode == 3, again.stdout + again.stderr  # the first run has spent the budget
    assert accounts(tmp_path / "ledger") == spent
    assert len(spent) == 2


def accounts(folder: Path) -> dict[str, int]:
    """Steps that are paid for, by data set."""
    with Ledger.open(folder / "ledger.sqlite") as ledger:
        return {one.dataset: sum(entry.steps for entry in one.spent()) for one in ledger.accounts()}
