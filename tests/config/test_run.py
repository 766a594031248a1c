"""Every bad setting is refused by name, at the door."""

import pytest

from fl_dp.config.client import ClientConfig
from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError

CLIENT = {"client": "a", "ledger": "a.sqlite"}


def test_a_flat_mapping_survives_the_round_trip():
    config = RunConfig.from_flat({"clients": 3, "noise-multiplier": 1, "delta": 1e-6})
    assert config.noise_multiplier == 1.0
    assert RunConfig.from_flat(config.to_flat()) == config
    client = ClientConfig.from_flat({**CLIENT, "public-size": 100})
    assert ClientConfig.from_flat(client.to_flat()) == client


def test_a_toml_file_is_read_and_named_in_every_error(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text('clients = 4\nnoise-multiplier = "auto"\n')
    assert RunConfig.from_toml(path) == RunConfig(clients=4, min_clients=4, fit_clients=4)
    for text in ("clients = 0", "clients = [1]", "clients =", "unheard-of = 1"):
        path.write_text(text)
        with pytest.raises(ConfigError, match=r"run\.toml"):
            RunConfig.from_toml(path)
    with pytest.raises(ConfigError, match="no such config file"):
        RunConfig.from_toml(tmp_path / "missing.toml")


def test_a_client_assumes_what_a_run_assumes():
    run, client = RunConfig().to_flat(), ClientConfig.from_flat(CLIENT).to_flat()
    differ = {key for key in run.keys() & client.keys() if run[key] != client[key]}
    assert differ == {"max-grad-norm"}  # a run asks for a bound; to a client it is a limit
    assert client["max-grad-norm"] == float("inf")
    assert not client["allow-unprotected"]
    assert not client["vary-mechanism"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("clients", 0),
        ("clients", True),
        ("clients", "2"),
        ("min-clients", 3),
        ("fit-clients", 3),
        ("rounds", 0),
        ("expected-batch-size", 100),
        ("physical-batch-size", 0),
        ("physical-batch-size", "all"),
        ("memory-mib", 0),
        ("learning-rate", 0),
        ("learning-rate", float("nan")),
        ("noise-multiplier", 0),
        ("noise-multiplier", "some"),
        ("noise-multiplier", float("inf")),
        ("max-grad-norm", -1.0),
        ("epsilon", 0),
        ("epsilon", float("inf")),
        ("delta", 0),
        ("delta", 1),
        ("delta", "small"),
        ("local-epochs", 0),
        ("momentum", 1.0),
        ("partition", "even"),
        ("partition-alpha", 0),
        ("partition-classes", 0),
        ("weights", "counted"),
        ("accountant", "no-such-accountant"),
        ("clients-per-gpu", 0),
        ("clients-per-cpu", -1),
        ("client-timeout", 0),
        ("evaluate-every", -1),
        ("round-timeout", 0),
        ("seed", -1),
        ("unheard-of", 1),
    ],
)
def test_a_bad_run_setting_is_refused_by_name(key, value):
    with pytest.raises(ConfigError, match=key):
        RunConfig.from_flat({key: value})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("client", ""),
        ("ledger", ""),
        ("partition-id", 1),
        ("partition-id", -1),
        ("num-partitions", 0),
        ("public-size", 0),
        ("epsilon", 0),
        ("delta", 2.0),
        ("min-noise-multiplier", -0.1),
        ("max-grad-norm", 0),
        ("physical-batch-size", 0),
        ("physical-batch-size", "all"),
        ("memory-mib", 0),
        ("seed", -1),
        ("partition", "even"),
    ],
)
def test_a_bad_client_setting_is_refused_by_name(key, value):
    with pytest.raises(ConfigError, match=key):
        ClientConfig.from_flat({**CLIENT, key: value})


def test_the_physical_batch_may_be_left_to_the_machine():
    """Then any logical batch goes."""
    run = RunConfig.from_flat({"physical-batch-size": "auto", "expected-batch-size": 61, "memory-mib": 512})
    assert (run.physical_batch_size, run.memory_mib) == ("auto", 512)
    assert RunConfig.from_flat(run.to_flat()) == run
    client = ClientConfig.from_flat({**CLIENT, "physical-batch-size": "auto", "memory-mib": 512})
    assert (client.physical_batch_size, client.memory_mib) == ("auto", 512)


def test_a_client_must_say_who_it_is_and_where_its_ledger_is(tmp_path):
    path = tmp_path / "client.toml"
    path.write_text('client = "a"\n')
    with pytest.raises(ConfigError, match="ledger"):
        ClientConfig.from_toml(path)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"optimizer_state": "lose"}, "optimizer-state = 'lose': expected reset or keep"),
        ({"precision": "fp16"}, "precision = 'fp16': expected float32 or bf16"),
        ({"optimizer_settings": "betas"}, "optimizer-settings = 'betas': expected NAME=VALUE"),
    ],
)
def test_ways_of_training_that_are_none_are_refused(settings, words):
    with pytest.raises(ConfigError, match=words):
        RunConfig(**settings)
