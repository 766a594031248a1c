"""`fl-dp fine-tune`: a site's own settings in, weights or a reason out."""

from pathlib import Path
from typing import Any

import pytest

from fl_dp.cli.common import run_command
from fl_dp.cli.main import app
from fl_dp.config.client import ClientConfig
from fl_dp.errors import BudgetExhaustedError
from fl_dp.launch import fine_tuning
from fl_dp.launch.fine_tuning import Recipe


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    found: list[Any] = []
    monkeypatch.setattr(fine_tuning, "fine_tune", lambda *given: found.append(given) or "done")
    return found


def test_settings_and_recipe_are_those_that_are_given(tmp_path, asked, capsys):
    (tmp_path / "client.toml").write_text('client = "north"\nepsilon = 2.0\n')
    settings = [
        "--config",
        str(tmp_path / "client.toml"),
        "--ledger",
        str(tmp_path),
        "--set",
        "data=npz:x.npz",
    ]
    recipe = ["--local-epochs", "2.5", "--trainable", "head.*", "--own", "r", "--noise-multiplier", "2"]
    assert run_command(app, ["fine-tune", "model.pt", "--out", "ours.pt", *settings, *recipe]) == 0
    assert capsys.readouterr().out == "done\n"
    ((settings, model, recipe, out),) = asked
    assert isinstance(settings, ClientConfig)
    assert (settings.client, settings.epsilon, settings.data) == ("north", 2.0, "npz:x.npz")
    assert settings.ledger == str(tmp_path / "ledger.sqlite")
    assert (model, out) == (Path("model.pt"), Path("ours.pt"))
    assert recipe == Recipe(local_epochs=2.5, noise_multiplier=2.0, trainable="head.*", own="r")


def test_a_budget_that_is_spent_has_an_exit_code_of_its_own(tmp_path, monkeypatch, capsys):
    def spent(*given):
        raise BudgetExhaustedError("all is spent")

    monkeypatch.setattr(fine_tuning, "fine_tune", spent)
    words = ["fine-tune", "m.pt", "--out", "o.pt", "--ledger", str(tmp_path), "--set", "data=digits"]
    assert run_command(app, words) == 3
    assert capsys.readouterr().out == "nothing was trained: all is spent\n"
