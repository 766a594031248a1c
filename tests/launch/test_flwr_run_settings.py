"""Where clients that Flower simulates, in `flwr run`, have their settings from."""

from pathlib import Path

import pytest
from flwr.app import Context, RecordDict

from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.launch.clients import client_config, write_client_file
from fl_dp.launch.flwr_run import settings_of


def context(config: RunConfig, part: int, parts: int) -> Context:
    node = {"partition-id": part, "num-partitions": parts}
    return Context(run_id=7, node_id=1, node_config=node, state=RecordDict(), run_config=config.to_flat())


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_they_follow_from_the_run_config(tmp_path):
    settings = settings_of(context(RunConfig(epsilon=1.25, model="tanh-cnn"), 1, 2))
    assert (settings.client, settings.partition_id, settings.num_partitions) == ("1", 1, 2)
    assert (settings.epsilon, settings.model) == (1.25, "tanh-cnn")
    assert settings.ledger == str(tmp_path / "runs" / "7" / "ledgers" / "ledger.sqlite")


def test_another_number_of_clients_is_refused_with_the_command_that_helps():
    with pytest.raises(ConfigError, match=r"simulates 10 SuperNodes; .* --num-supernodes 2\."):
        settings_of(context(RunConfig(), 1, 10))


def test_settings_of_their_own_come_first(tmp_path):
    file = write_client_file(client_config(RunConfig(epsilon=0.5), 0, tmp_path), tmp_path / "own.toml")
    asked = context(RunConfig(epsilon=9.0), 0, 2)
    asked.node_config["client-config"] = str(file)
    assert settings_of(asked).epsilon == 0.5
