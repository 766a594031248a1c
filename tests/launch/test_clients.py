from fl_dp.config.client import ClientConfig
from fl_dp.config.run import RunConfig
from fl_dp.launch.clients import client_config, write_client_files


def test_every_client_has_its_part_and_all_one_ledger(tmp_path):
    files = write_client_files(RunConfig(clients=3, seed=5), tmp_path / "clients", tmp_path / "ledgers")
    configs = [ClientConfig.from_toml(file) for file in files]
    assert [(one.partition_id, one.num_partitions, one.seed) for one in configs] == [
        (k, 3, 5) for k in range(3)
    ]
    assert {config.ledger for config in configs} == {str(tmp_path / "ledgers" / "ledger.sqlite")}
    modes = [path.stat().st_mode & 0o777 for path in (files[0], files[0].parent)]
    assert modes == [0o600, 0o700]  # for its owner alone


def test_a_client_accepts_what_the_run_announces_and_no_more(tmp_path):
    announced = {
        "max_grad_norm": 0.7,
        "epsilon": 2.0,
        "delta": 1e-6,
        "accountant": "rdp",
        "arithmetic": "proven",
    }
    run = RunConfig(noise_multiplier=1.5, **announced)
    config = client_config(run, 0, tmp_path)
    assert {name: getattr(config, name) for name in announced} == announced
    assert config.min_noise_multiplier == 1.5
    assert client_config(RunConfig(noise_multiplier="auto"), 0, tmp_path).min_noise_multiplier == 0.0
    assert not config.allow_unprotected
    assert client_config(RunConfig(privacy="off"), 0, tmp_path).allow_unprotected
