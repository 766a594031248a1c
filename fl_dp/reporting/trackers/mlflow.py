"""MLflow: files in a folder, to be shown by `mlflow ui` or imported by `mlflow migrate-filestore`.

Runs are begun by its client, which adds no tags: the usual `mlflow.start_run` records user, code and Git.
"""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fl_dp.config.flat import Scalar
from fl_dp.reporting.tracking import Tracker

_EXPERIMENT = "fl-dp"
_NOWHERE = "mlflow-artifacts:/fl-dp"  # for artifacts: there are none, but their path would be written
# Telemetry would go to its makers; MLflow calls its file backend "in maintenance".
_SETTINGS = {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true", "MLFLOW_ALLOW_FILE_STORE": "true"}


class _Run:
    def __init__(self, client: Any, key: str) -> None:
        self._client = client
        self.key = key

    def log(self, server_round: int, numbers: Mapping[str, float]) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        metrics = [Metric(name, value, now, server_round) for name, value in numbers.items()]
        with _settings():
            self._client.log_batch(self.key, metrics=metrics)

    def close(self, *, completed: bool) -> None:
        with _settings():
            self._client.set_terminated(self.key, "FINISHED" if completed else "FAILED")


def _open(folder: Path, settings: Mapping[str, Scalar], key: str) -> _Run:
    with _settings():
        from mlflow.tracking import MlflowClient

        client = MlflowClient(tracking_uri=folder.as_uri())
        if key:
            client.update_run(key, status="RUNNING")
            return _Run(client, key)
        experiment = client.create_experiment(_EXPERIMENT, artifact_location=_NOWHERE)
        run = client.create_run(experiment, run_name=_EXPERIMENT)
        for name, value in settings.items():
            client.log_param(run.info.run_id, name, value)
        return _Run(client, run.info.run_id)


@contextmanager
def _settings() -> Iterator[None]:
    """MLflow finds our settings in the environment inside the block, and nobody else's."""
    theirs = {name: value for name, value in os.environ.items() if name.startswith("MLFLOW_")}
    before = theirs | {name: os.environ[name] for name in _SETTINGS if name in os.environ}
    for name in theirs:
        del os.environ[name]
    os.environ.update(_SETTINGS)
    try:
        yield
    finally:
        for name in _SETTINGS:
            os.environ.pop(name, None)
        os.environ.update(before)


TRACKER = Tracker("mlflow", _open)
