"""Two clients with the same records are named before a run starts, by the rule of the ledger."""

from pathlib import Path

import numpy as np
import pytest

from fl_dp.config.run import RunConfig
from fl_dp.errors import DataError
from fl_dp.launch.copies import check_copies
from fl_dp.launch.preflight import split


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
    assert split(config).sizes == (
        48,
        48,
        48,
    )  # files that share nothing pass; with room, as each is a client's own
    with np.load(tmp_path / "0.npz") as found:
        part = {name: found[name][:rows] for name in ("x_train", "y_train", "classes")}
        np.savez(tmp_path / "2.npz", **part)
    with pytest.raises(DataError, match=r"clients 0 and 2: .*0\.npz and 2\.npz"):
        split(config)


def test_parts_of_one_set_are_not_compared(monkeypatch):
    monkeypatch.setattr("fl_dp.tasks.records.load_part", lambda settings: pytest.fail("data were read"))
    check_copies(RunConfig())
