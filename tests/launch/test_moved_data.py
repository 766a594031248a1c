"""Runs over files of one's own: one for each client, and files that are moved between two runs."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fl_dp.accounting.ledger.ledger import Ledger

pytestmark = pytest.mark.slow

COMMON = ("clients=2", "min-clients=2", "fit-clients=2", "rounds=1", "epsilon=1.0")


def files(folder: Path) -> Path:
    """One file for each of two clients and one for the server, which has test records alone."""
    folder.mkdir()
    random = np.random.default_rng(0)
    for name, split, rows in (("0", "train", 90), ("1", "train", 120), ("server", "test", 40)):
        x = random.normal(size=(rows, 5))
        arrays = {f"x_{split}": x, f"y_{split}": (x[:, 0] > 0).astype(int), "classes": np.arange(2)}
        np.savez(folder / f"{name}.npz", **arrays)
    return folder


def run(*words: str, settings: tuple[str, ...]) -> "subprocess.CompletedProcess[str]":
    pairs = [word for one in (*COMMON, *settings) for word in ("--set", one)]
    return subprocess.run(
        [sys.executable, "-P", "-m", "fl_dp.cli", *words, *pairs], capture_output=True, text=True, check=False
    )


def test_moved_files_go_on_from_what_they_have_spent(tmp_path):
    first, ledger = files(tmp_path / "first"), tmp_path / "ledger"
    words = ("--simulate", "--ledger", str(ledger), "--out")
    named = ("data-name=ward {client}",)
    begun = run(*words, str(tmp_path / "a"), settings=(f"data=npz:{first}/{{client}}.npz", *named))
    assert begun.returncode == 0, begun.stdout + begun.stderr
    assert f"ledger in {ledger}: what other runs have spent there counts" in begun.stdout
    spent = accounts(ledger)
    assert list(spent) == ["ward 0", "ward 1"]

    second = first.rename(tmp_path / "second")
    again = run(*words, str(tmp_path / "b"), settings=(f"data=npz:{second}/{{client}}.npz", *named))
    assert again.returncode == 3, again.stdout + again.stderr  # the budget was spent by the first run
    assert accounts(ledger) == spent

    renamed = run(*words, str(tmp_path / "c"), settings=(f"data=npz:{second}/{{client}}.npz",))
    assert renamed.returncode == 1
    assert "entered as ward" in renamed.stdout + renamed.stderr + logs(tmp_path / "c")
    assert accounts(ledger) == spent


def accounts(folder: Path) -> dict[str, int]:
    """Steps that are paid for, by data set."""
    with Ledger.open(folder / "ledger.sqlite") as ledger:
        return {one.dataset: sum(entry.steps for entry in one.spent()) for one in ledger.accounts()}


def logs(folder: Path) -> str:
    return "".join(file.read_text() for file in (folder / "logs").iterdir())
