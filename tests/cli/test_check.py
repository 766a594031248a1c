"""`fl-dp check` takes the words of `fl-dp run`, and its exit code says what would become of that run."""

from pathlib import Path

import pytest

from fl_dp.cli import check as module
from fl_dp.cli.common import run_command
from fl_dp.cli.main import app
from fl_dp.launch.check import CheckResult


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list:
    """Requests that would have been checked, with their options."""
    seen: list = []

    def check_run(request, *, told, **options):
        seen.append((request.config, options))
        return CheckResult(("nothing was looked at",))

    monkeypatch.setattr(module, "check_run", check_run)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.toml").write_text("rounds = 7\n")
    return seen


@pytest.mark.parametrize("words", [["run.toml", "4", "2"], ["--config", "run.toml", "4", "2"]])
def test_its_words_are_those_of_run_and_the_config_may_stand_first(asked, words):
    more = ["--simulate", "--set", "epsilon=2", "--seed", "5", "--ledger", "l", "--out", "o"]
    assert run_command(app, ["check", *words, *more]) == 2
    ((config, options),) = asked
    assert (config.rounds, config.clients, config.min_clients, config.epsilon, config.seed) == (7, 4, 2, 2, 5)
    where = {"out": Path("o"), "ledger": Path("l"), "one_run_ledger": False, "server": False}
    assert options == {"engine": "ray", **where}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["run.toml", "--config", "x.toml"], "--config x.toml: run.toml is a second config"),
        (["--ray-address", "auto"], "--ray-address auto: works only in a simulation"),
        (["--set", "round=1"], "did you mean rounds?"),
    ],
)
def test_bad_words_are_refused_as_run_refuses_them(asked, words, expected, capsys):
    assert run_command(app, ["check", *words]) == 2
    assert expected in capsys.readouterr().err
    assert asked == []


def test_what_is_found_later_says_where_it_stands(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("run.toml").write_text('\ndata = "digts"\n')
    assert run_command(app, ["check", "run.toml"]) == 2
    assert "wrong: run.toml, line 2: data = 'digts': expected " in capsys.readouterr().out
    assert run_command(app, ["check", "--set", "model=liner"]) == 2
    assert "wrong: --set: model = 'liner': expected " in capsys.readouterr().out
