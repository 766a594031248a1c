"""A client's settings come from its own disk."""

from pathlib import Path

import pytest

from fl_dp.errors import ConfigError
from fl_dp.federation.client.settings import TEMPLATE_VARIABLE, client_settings


@pytest.fixture
def template(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "simulation.toml"
    path.write_text(f'client = "simulated"\nledger = "{tmp_path}/ledger.sqlite"\nepsilon = 2.0\n')
    monkeypatch.setenv(TEMPLATE_VARIABLE, str(path))
    return path


def test_a_real_client_names_its_file_in_its_node_config(tmp_path, template):
    path = tmp_path / "hospital.toml"
    path.write_text('client = "hospital"\nledger = "l.sqlite"\nepsilon = 1.0\n')
    config = client_settings({"client-config": str(path), "partition-id": 9, "num-partitions": 10})
    assert (config.client, config.epsilon, config.num_partitions) == ("hospital", 1.0, 1)


def test_simulated_clients_differ_by_flowers_number(tmp_path, template):
    config = client_settings({"partition-id": 3, "num-partitions": 5})
    assert (config.client, config.partition_id, config.num_partitions) == ("3", 3, 5)
    assert (config.ledger, config.epsilon) == (f"{tmp_path}/ledger.sqlite", 2.0)
    with pytest.raises(ConfigError, match="partition-id"):
        client_settings({})


def test_no_settings_is_an_error_that_says_what_to_do(monkeypatch):
    monkeypatch.delenv(TEMPLATE_VARIABLE, raising=False)
    with pytest.raises(ConfigError, match="--node-config"):
        client_settings({"partition-id": 0, "num-partitions": 1})
