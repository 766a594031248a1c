"""Every bad setting is refused by name, at the door."""

import pytest

from fl_dp.config.client import ClientConfig
from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError

CLIENT = {"client": "a", "ledger": "a.sqlite"}


def test_a_flat_mapping_survives_the_round_trip():
    config = RunConfig.from_flat({"clients": 3, "noise-multiplier": 1, "delta": 1e-6})
    assert config.noise_multiplier == 1.0
    for run in (config, RunConfig(clients=5, min_clients=2, fit_clients=3)):
        assert RunConfig.from_flat(run.to_flat()) == run
    client = ClientConfig.from_flat({**CLIENT, "public-size": 100})
    assert ClientConfig.from_flat(client.to_flat()) == client


def test_a_toml_file_is_read_and_named_in_every_error(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text('clients = 4\nnoise-multiplier = "auto"\n')
    assert RunConfig.from_toml(path) == RunConfig(clients=4, min_clients=4, fit_clients=4)
    for text, words in (
        ("clients = 0", ", line 1: clients = 0"),
        ("clients = [1]", ", line 1: clients = a list"),
        ("clients =", ": not a readable TOML file"),
        ("\nunheard-of = 1", ", line 2: unheard-of"),
        ("seed = 1\n[run]\nclients = 2", r", line 2: \[run\]: a config has no tables"),
        ('data = "digits"\nmetrics = [\n ["a"],\n]', r", line 2: metrics = a list: expected a string"),
        ("[[privacy]]\nepsilon = 2.0", r", line 1: \[\[privacy\]\]: a config has no tables"),
    ):
        path.write_text(text)
        with pytest.raises(ConfigError, match=rf"run\.toml{words}"):
            RunConfig.from_toml(path)
    for kind in ("yaml", "json"):
        (tmp_path / f"run.{kind}").write_text('{"clients": 4}\n')
        words = f"Write TOML, not {kind.upper()}: KEY = VALUE lines, such as rounds = 3"
        with pytest.raises(ConfigError, match=words):
            RunConfig.from_toml(tmp_path / f"run.{kind}")
    with pytest.raises(ConfigError, match=r"no such config file; did you mean run\.yaml\?"):
        RunConfig.from_toml(tmp_path / "runs.yaml")
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
    ("kind", "key", "value"),
    [
        (RunConfig, "min-clients", 3),
        (RunConfig, "fit-clients", 3),
        (RunConfig, "expected-batch-size", 100),
        (RunConfig, "physical-batch-size", "all"),
        (RunConfig, "optimizer-settings", "momentum=1"),
        (RunConfig, "optimizer-settings", "momentum=true"),
        (RunConfig, "local-algorithm", "fedprox:x"),
        (RunConfig, "local-algorithm", "mr-mtl:-1"),
        (ClientConfig, "allow-secure-sum", 1),
        (RunConfig, "partition", "even"),
        (ClientConfig, "client", ""),
        (ClientConfig, "ledger", ""),
        (ClientConfig, "partition-id", 1),
    ],
)
def test_a_bad_setting_is_refused_by_name(kind, key, value):
    """Beside test_setting.py, which has every number, and test_values.py with the words."""
    with pytest.raises(ConfigError, match=f"^{key} = "):
        kind.from_flat({**(CLIENT if kind is ClientConfig else {}), key: value})


def test_what_plans_hold_apart_is_read_from_arguments():
    config = RunConfig(optimizer_settings="nesterov=true, momentum=0.5", local_algorithm="mr-mtl:0.25")
    assert (config.momentum, config.other_settings) == (0.5, "nesterov=true")
    assert (config.algorithm, config.pull) == ("mr-mtl", 0.25)
    other = RunConfig(optimizer="rmsprop", optimizer_settings="momentum=0.5", local_algorithm="mr-mtl")
    assert (other.momentum, other.other_settings, other.pull) == (0.0, "momentum=0.5", 0.0)


def test_the_physical_batch_may_be_left_to_the_machine():
    """Then any logical batch goes."""
    run = RunConfig.from_flat({"physical-batch-size": "auto", "expected-batch-size": 61, "memory-mib": 512})
    assert (run.physical_batch_size, run.memory_mib) == ("auto", 512)
    assert RunConfig.from_flat(run.to_flat()) == run
    client = ClientConfig.from_flat({**CLIENT, "physical-batch-size": "auto", "memory-mib": 512})
    assert (client.physical_batch_size, client.memory_mib) == ("auto", 512)
