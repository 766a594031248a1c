"""MLflow's files: read by its own client, and without a name of this machine."""

import os
from pathlib import Path
from typing import Any

import pytest
from run_records import record
from tracked import WORD, pretend, told_of_this_machine

from fl_dp.reporting.trackers.mlflow import TRACKER
from fl_dp.reporting.tracking import numbers_of

pytest.importorskip("mlflow", reason="MLflow is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")  # MLflow's own


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    from mlflow.tracking import MlflowClient

    pretend(monkeypatch, tmp_path)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    return MlflowClient(tracking_uri=tmp_path.as_uri())


def test_a_run_that_went_on_is_one_run_and_names_nothing_of_this_machine(client: Any, tmp_path: Path) -> None:
    before = dict(os.environ)
    run = TRACKER.open(tmp_path, {"epsilon": 3.0, "noise-multiplier": "auto"}, "")
    for number in (1, 2):
        run.log(number, {"model/loss": 1 / number, "privacy/epsilon": float(number)})
        print(WORD)
    run.close(completed=False)
    assert client.get_run(run.key).info.status == "FAILED"
    again = TRACKER.open(tmp_path, {"epsilon": 3.0}, run.key)
    assert again.key == run.key
    again.log(3, {"model/loss": 0.25})
    again.close(completed=True)
    assert dict(os.environ) == before
    found = client.get_metric_history(run.key, "model/loss")
    assert [(one.step, one.value) for one in found] == [(1, 1.0), (2, 0.5), (3, 0.25)]
    kept = client.get_run(run.key)
    assert kept.data.params == {"epsilon": "3.0", "noise-multiplier": "auto"}
    assert set(kept.data.tags) == {"mlflow.runName"}
    assert kept.info.status == "FINISHED"
    assert told_of_this_machine(tmp_path) == []


HOSTILE = (
    "..",
    ".",
    "../../x",
    "/etc/x",
    "",
    "a\nb",
    "\u202ex",
    "é" * 300,
    "a:b",
    "%2e%2e",
    "~",
    "a\\b",
    ". .",
)


def test_whatever_a_metric_is_called_it_is_a_file_in_the_trackers_folder(client: Any, tmp_path: Path) -> None:
    numbers = numbers_of(record(1, metrics=dict.fromkeys(HOSTILE, 0.5)))
    assert len([name for name in numbers if name.startswith("model/")]) > 8
    place = tmp_path / "tracked"
    place.mkdir()
    run = TRACKER.open(place, {}, "")
    run.log(1, numbers)
    run.close(completed=True)
    (folder,) = place.glob(f"*/{run.key}/metrics")
    written = {file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()}
    assert written == numbers.keys()
    assert {file.name for file in tmp_path.iterdir()} <= {place.name, ".trash"}  # which the fixture makes
