"""A client's settings come from its own disk."""

import pytest
from flwr.app import Context, RecordDict

from fl_dp.errors import FlDpError
from fl_dp.federation.client.answers import own_settings


def settings_of(**node_config):
    return own_settings(Context(1, 1, node_config, RecordDict(), {}))


def test_a_real_client_names_its_file_in_its_node_config(tmp_path):
    path = tmp_path / "hospital.toml"
    path.write_text('client = "hospital"\nledger = "l.sqlite"\nepsilon = 1.0\n')
    config = settings_of(**{"client-config": str(path), "partition-id": 9, "num-partitions": 10})
    assert (config.client, config.epsilon, config.num_partitions) == ("hospital", 1.0, 1)


def test_no_settings_is_an_error_that_says_what_to_do_in_its_own_log_alone():
    with pytest.raises(FlDpError, match="its own log says why") as told:
        settings_of(**{"partition-id": 0})
    assert "--node-config" in str(told.value.__cause__)
