"""A model on features: evaluated, asked and exported on the same features as it was trained on."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import fl_dp
from fl_dp.api.predicting import write_predictions
from fl_dp.cli.main import app
from fl_dp.config.client import ClientConfig
from fl_dp.config.run import RunConfig
from fl_dp.data.features.scatter import of
from fl_dp.errors import ConfigError
from fl_dp.federation.server.evaluation import evaluate
from fl_dp.form import Form
from fl_dp.launch.preflight import check_server, split
from fl_dp.tasks.load import give, task_of
from fl_dp.tasks.records import evaluation_records, load_part, load_parts, records_of

pytest.importorskip("kymatio")

FORM = Form((9, 4, 4), 2)
CPU = torch.device("cpu")


@pytest.fixture
def data(tmp_path: Path) -> str:
    numbers = np.random.default_rng(0)
    arrays = {
        f"x_{split}": numbers.integers(0, 256, (n, 8, 8, 1)).astype(np.uint8)
        for split, n in (("train", 30), ("test", 70))
    }
    labels = {"y_train": np.arange(30) % 2, "y_test": np.arange(70) % 2, "classes": ["no", "yes"]}
    np.savez(tmp_path / "images.npz", **arrays, **labels)
    return f"npz:{tmp_path / 'images.npz'}"


@pytest.fixture
def run(make_run: Any, data: str) -> Path:
    return make_run(form=FORM, data=data, features="scatter:1", model="norm-linear")


def answers(file: Path) -> list[str]:
    with file.open(newline="") as opened:
        return [line["answer"] for line in csv.DictReader(opened)]


def test_predictions_are_those_that_were_evaluated(run, data, tmp_path):
    result = fl_dp.load_run(run)
    test = records_of(task_of(result.settings), "test")
    measured = evaluate(result.model, test, task_of(result.settings), CPU)
    found = fl_dp.predict(result, {"data": data, "features": "scatter:1"})
    wanted = result.model(of(test.x, "1")).argmax(dim=1)
    assert list(found["answer"]) == [test.classes[label] for label in wanted]
    assert (wanted == test.y).float().mean() == pytest.approx(measured.metrics["accuracy"], abs=1e-6)
    with pytest.raises(ConfigError, match="features = 'scatter:2': the model was trained with features = "):
        fl_dp.predict(result, {"data": data, "features": "scatter:2"})


def test_records_without_labels_are_brought_to_features_too(run, tmp_path):
    x = np.random.default_rng(1).integers(0, 256, (5, 8, 8, 1)).astype(np.uint8)
    np.savez(tmp_path / "new.npz", x=x)
    result = fl_dp.load_run(run)
    write_predictions(fl_dp.predict(result, f"npz:{tmp_path / 'new.npz'}"), tmp_path / "out.csv")
    wanted = result.model(of(torch.from_numpy(x).permute(0, 3, 1, 2).contiguous(), "1")).argmax(dim=1)
    assert answers(tmp_path / "out.csv") == [("no", "yes")[label] for label in wanted]


def test_a_default_may_be_written_out(make_run, data, tmp_path):
    run = make_run(form=Form((81, 2, 2), 2), data=data, features="scatter", model="norm-linear")
    assert len(fl_dp.predict(run, {"data": data, "features": "scatter:2"})) == 70


def test_an_export_says_that_its_inputs_are_features(run, tmp_path):
    told = CliRunner().invoke(
        app, ["export", str(run), "--to", "safetensors", "--out", str(tmp_path / "out")]
    )
    assert told.exit_code == 0, told.output
    assert "the model takes the features scatter:1 of a record, not the record itself" in told.output
    card = json.loads((tmp_path / "out" / "card.json").read_text())
    assert card["inputs"].startswith("float32 features scatter:1 of a record")
    assert card["settings"]["features"] == "scatter:1"
    assert card["form"]["input_shape"] == [9, 4, 4]
    records = torch.randint(0, 256, (2, 1, 8, 8), dtype=torch.uint8)
    assert torch.equal(fl_dp.encode(tmp_path / "out" / "card.json", records), of(records, "1"))


def test_training_checking_evaluating_and_clients_files_see_one_form(data, tmp_path):
    config = RunConfig(data=data, features="scatter:1", model="norm-linear", clients=2)
    check_server(config)
    assert split(config)[1][-1].startswith("features scatter:1 of all records take 0 MiB")
    task = task_of(config)
    test = evaluation_records(config, task)
    train, _ = load_parts(config)
    assert test.form == train.form == task.form == FORM
    assert torch.equal(test.batch(torch.arange(70))[0], of(test.x, "1"))
    for client in ("0", "1"):
        (tmp_path / f"{client}.npz").write_bytes((tmp_path / "images.npz").read_bytes())
    files = RunConfig(data=f"npz:{tmp_path}/{{client}}.npz", features="scatter:1", clients=2)
    train, parts = load_parts(files)
    assert (len(train), [len(part) for part in parts], train.form) == (60, [30, 30], FORM)


def test_a_task_of_ones_own_has_features_of_its_records(data):
    class Mine(fl_dp.Task):
        classes = ("no", "yes")

        def train_data(self):
            return torch.zeros(4, 1, 8, 8), torch.tensor([0, 1, 0, 1])

        def public_form(self):
            return Form((1, 8, 8), 2)

    name = give(Mine)
    part = load_part(ClientConfig(client="a", ledger="l", task=name, features="scatter:1"))
    assert part.form == FORM
    config = RunConfig(task=name, features="scatter:1", evaluate="off")
    evaluation_records(config, task_of(config))
    assert task_of(config).form == FORM
