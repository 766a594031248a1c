"""Runs over files of one's own: one for each client, and files that are moved between two runs."""

import numpy as np
import pytest
from launch.commands import fl_dp, steps_paid

pytestmark = pytest.mark.slow


def files(folder):
    """One file for each of two clients and one for the server, which has test records alone."""
    folder.mkdir()
    random = np.random.default_rng(0)
    for name, split, rows in (("0", "train", 90), ("1", "train", 120), ("server", "test", 40)):
        x = random.normal(size=(rows, 5))
        arrays = {f"x_{split}": x, f"y_{split}": (x[:, 0] > 0).astype(int), "classes": np.arange(2)}
        np.savez(folder / f"{name}.npz", **arrays)
    return folder


def test_moved_files_go_on_from_what_they_have_spent(tmp_path):
    ledger = tmp_path / "ledger"

    def run(out, data, *settings):
        words = ("run", "--simulate", "--ledger", str(ledger), "--out", str(tmp_path / out))
        settings = (*settings, f"data=npz:{data}/{{client}}.npz", "clients=2", "rounds=1", "epsilon=1.0")
        return fl_dp(*words, settings=settings)

    first = files(tmp_path / "first")
    begun = run("a", first, "data-name=ward {client}")
    assert begun.returncode == 0, begun.stdout + begun.stderr
    assert f"ledger in {ledger}: what other runs have spent there counts" in begun.stdout
    spent = steps_paid(ledger)
    assert list(spent) == ["ward 0", "ward 1"]

    second = first.rename(tmp_path / "second")
    again = run("b", second, "data-name=ward {client}")
    assert again.returncode == 3, again.stdout + again.stderr  # the budget was spent by the first run

    renamed = run("c", second)
    assert renamed.returncode == 1
    logs = "".join(file.read_text() for file in (tmp_path / "c" / "logs").iterdir())
    assert "entered as ward" in renamed.stdout + renamed.stderr + logs
    assert steps_paid(ledger) == spent
