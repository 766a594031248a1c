"""A run on features, from its launch to a prediction from its folder."""

import csv
import json

import pytest
from launch.commands import trained

from fl_dp.data.sources.digits import load_digits

pytestmark = pytest.mark.slow

pytest.importorskip("kymatio")


@pytest.mark.parametrize("words", [("--simulate",), ()], ids=["simulated", "own processes"])
def test_a_run_learns_and_its_predictions_are_what_was_measured(words, tmp_path):
    out, answers = tmp_path / "run", tmp_path / "out.csv"
    settings = ("features=scatter:1", "model=norm-linear", "rounds=1")
    said = trained("run", *words, "--out", str(out), settings=settings)
    assert "features scatter:1 of all records take 1 MiB" in said
    found = json.loads((out / "summary.json").read_text())
    assert found["metrics"]["accuracy"] > 0.5
    trained("predict", str(out), "--data", "digits", "--out", str(answers))
    test = load_digits("test")
    with answers.open(newline="") as opened:
        told = [int(line["answer"]) for line in csv.DictReader(opened)]
    right = sum(answer == label for answer, label in zip(told, test.y.tolist(), strict=True))
    assert right / len(test) == pytest.approx(found["metrics"]["accuracy"], abs=1e-6)
