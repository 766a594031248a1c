"""A client's settings come from its own disk."""

import pytest

from fl_dp.errors import ConfigError
from fl_dp.federation.client.settings import client_settings


def test_a_real_client_names_its_file_in_its_node_config(tmp_path):
    path = tmp_path / "hospital.toml"
    path.write_text('client = "hospital"\nledger = "l.sqlite"\nepsilon = 1.0\n')
    config = client_settings({"client-config": str(path), "partition-id": 9, "num-partitions": 10})
    assert (config.client, config.epsilon, config.num_partitions) == ("hospital", 1.0, 1)


def test_no_settings_is_an_error_that_says_what_to_do():
    with pytest.raises(ConfigError, match="--node-config"):
        client_settings({"partition-id": 0, "num-partitions": 1})
