"""Records that a ledger would refuse are refused before anything is started."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fl_dp.config.run import RunConfig
from fl_dp.errors import AtWorkError, ConfigError, DataError
from fl_dp.launch import ledger_entry
from fl_dp.launch.ledger_entry import check_copies, entered
from fl_dp.launch.preflight import split

DIGITS = RunConfig(data="digits", clients=2, min_clients=2, fit_clients=2)


def test_data_that_the_ledger_has_otherwise_are_declined_before_anything_is_started(tmp_path):
    with entered(DIGITS, tmp_path):
        pass
    with entered(DIGITS, tmp_path):  # the same again
        pass
    otherwise = r"Split the data as before, or retire.*--one-run-ledger"
    with pytest.raises(ConfigError, match=otherwise), entered(replace(DIGITS, seed=1), tmp_path):
        pass


def test_two_runs_never_train_on_the_same_data_at_once(tmp_path):
    with entered(DIGITS, tmp_path):
        words = "another run on this machine is training on these data"
        with pytest.raises(AtWorkError, match=words), entered(DIGITS, tmp_path):
            pass
        with entered(replace(DIGITS, data_name="others"), tmp_path / "elsewhere"):
            pass
    with entered(DIGITS, tmp_path):  # the first is over
        pass


@pytest.fixture
def config(tmp_path: Path) -> RunConfig:
    for client in range(3):
        x = np.random.default_rng(client).normal(size=(40, 4))
        np.savez(
            tmp_path / f"{client}.npz", x_train=x, y_train=np.arange(40) % 2, classes=np.array(["no", "yes"])
        )
    return RunConfig(clients=3, data=f"npz:{tmp_path}/{{client}}.npz")


@pytest.mark.parametrize("rows", [40, 20])
def test_a_copy_is_named_with_both_clients_and_so_is_a_part(rows, config, tmp_path):
    # files that share nothing pass; with room, as each is a client's own
    assert split(config)[0] == (48, 48, 48)
    with np.load(tmp_path / "0.npz") as found:
        part = {name: found[name][:rows] for name in ("x_train", "y_train", "classes")}
        np.savez(tmp_path / "2.npz", **part)
    with pytest.raises(DataError, match=r"clients 0 and 2: .*0\.npz and 2\.npz"):
        split(config)


def test_parts_of_one_set_are_not_compared(monkeypatch):
    monkeypatch.setattr(ledger_entry, "load_part", lambda settings: pytest.fail("data were read"))
    check_copies(RunConfig())
