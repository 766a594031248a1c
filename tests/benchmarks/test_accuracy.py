"""The table of accuracies: what is held out, what is run, and that a run is not repeated."""

import argparse
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks import accuracy
from benchmarks.accuracy_rows import ROWS, Row
from fl_dp.config.run import RunConfig
from fl_dp.data.tensor_data import TensorData

ROOT = Path(__file__).parents[2]


def test_every_row_and_what_is_tried_for_it_is_a_run_config():
    for row in ROWS.values():
        for changes in ({}, *row.tried):
            RunConfig(**{**row.settings, **changes})


def test_what_is_held_out_is_not_trained_on(tmp_path, monkeypatch):
    x = torch.arange(50, dtype=torch.uint8)[:, None, None, None].expand(-1, 3, 4, 4).contiguous()
    whole = TensorData(x, torch.arange(50) % 2, ("a", "b"))
    monkeypatch.setattr(accuracy, "data_of", lambda *_: whole)
    monkeypatch.setattr(accuracy, "HELD_OUT", 10)
    with np.load(accuracy.held_out("any", tmp_path, tmp_path).removeprefix("npz:")) as file:
        train, test = (set(file[f"x_{split}"][:, 0, 0, 0].tolist()) for split in ("train", "test"))
        assert (len(train), len(test)) == (40, 10)
        assert not train & test
        assert all(file["y_test"] == file["x_test"][:, 0, 0, 0] % 2)


def test_tuning_takes_a_seed_of_its_own(monkeypatch):
    monkeypatch.setitem(ROWS, "some", Row({"data": "digits"}, tried=({"rounds": 1}, {"rounds": 2})))
    assert accuracy.wanted("some", argparse.Namespace(tune=False, seeds=2)) == [({}, 0), ({}, 1)]
    tried = accuracy.wanted("some", argparse.Namespace(tune=True, seeds=2))
    assert tried == [({"rounds": rounds}, accuracy.TUNING_SEED) for rounds in (1, 2)]


def test_a_row_of_the_table_is_the_mean_over_its_seeds_and_its_worst_class():
    line = {"row": "some", "changes": {}, "tune": False, "epsilon": 2.9, "seconds": 3, "seed": 0}
    lines = [
        {**line, "accuracy": 0.80, "worst": 0.5, "worst_class": "shirt"},
        {**line, "seed": 1, "accuracy": 0.82, "worst": 0.4, "worst_class": "coat", "epsilon": 2.95},
        {**line, "accuracy": 0.8, "changes": {"rounds": 2}},  # without classes
    ]
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in accuracy.summary(lines).splitlines()]
    assert rows[2] == ["some", "", "81.000 ± 1.000", "45.000 ± 5.000", "coat", "2.95", "2", "3"]
    assert rows[3][0] == "some: rounds 2"
    assert rows[3][2:5] == ["80.000", "", ""]
    metrics = {"accuracy": 0.8, "accuracy-per-class[a [b]]": 0.25, "accuracy-per-class[c]": 0.5}
    withheld = {"accuracy-per-class[rare]": None}
    assert accuracy.worst_class(metrics | withheld) == {"worst": 0.25, "worst_class": "a [b]"}
    assert accuracy.worst_class(withheld) == {"worst": None, "worst_class": ""}


SMALL = """
import sys
from benchmarks import accuracy
from benchmarks.accuracy_rows import Row
accuracy.ROWS = {"small": Row({
    "data": "digits", "clients": 1, "min_clients": 1, "fit_clients": 1, "rounds": 2, "epsilon": 3.0,
    "metrics": "accuracy,accuracy-per-class", "model": "linear",
}, "a paper")}
sys.argv = ["accuracy", "--out", sys.argv[1], "--rows", "small", "--seeds", "1"]
if __name__ == "__main__":
    accuracy.main()
    accuracy.measured = sys.exit
    accuracy.main()
"""


@pytest.mark.slow
def test_a_run_is_measured_once(tmp_path):
    file = tmp_path / "lines.jsonl"
    done = subprocess.run(
        [sys.executable, "-c", SMALL, str(file)], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.count("a paper") == 2
    (line,) = accuracy.Lines(file).read()
    assert 0 <= line["worst"] <= line["accuracy"] <= 1
    assert 0 < line["epsilon"] <= 3
    assert len(line["curve"]) == 2
    assert line["curve"][1] == line["accuracy"]
