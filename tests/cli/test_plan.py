"""`fl-dp plan` writes a config that starts, once, and says why each setting is what it is."""

import tomllib
from pathlib import Path

import pytest

import fl_dp
from fl_dp.cli.common import run_command
from fl_dp.cli.main import app
from fl_dp.config.run import RunConfig
from fl_dp.launch.defaults import CHOSEN
from fl_dp.launch.request import read_config

WORDS = ["plan", "--epsilon", "2", "--clients", "3", "--set", "accountant=rdp"]


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_plan_is_written_with_its_reasons_and_never_over_a_file(tmp_path, capsys):
    assert run_command(app, [*WORDS, "--seed", "4", "--out", "mine.toml"]) == 0
    out = capsys.readouterr().out
    assert "linear on digits, epsilon 2: 3 clients with 1,442 records; 3 train in each round" in out
    assert "at the end: eps 2.00 of 2.00" in out
    assert "arXiv 2212.04486" in " ".join(out.split())
    assert "mine.toml is ready; to simulate it: fl-dp run --config mine.toml --simulate\n" in out
    assert out.endswith("fl-dp server --config mine.toml\n")
    written = read_config(tmp_path / "mine.toml")
    assert (written.epsilon, written.clients, written.min_clients, written.fit_clients) == (2.0, 3, 3, 3)
    assert (written.seed, written.accountant, written.data) == (4, "rdp", "digits")
    text = (tmp_path / "mine.toml").read_text()
    assert all(f"\n{field.replace('_', '-')} = " in text for field in CHOSEN if field != "server_optimizer")
    assert "server-optimizer" not in text
    assert "data-root" not in tomllib.loads(text)
    assert run_command(app, ["check", "mine.toml", "--simulate"]) == 0
    assert run_command(app, [*WORDS, "--out", "mine.toml"]) == 2
    assert "--out mine.toml: already exists and is not overwritten" in capsys.readouterr().err
    assert (tmp_path / "mine.toml").read_text() == text


def test_without_a_file_nothing_is_written(tmp_path, capsys):
    assert run_command(app, [*WORDS, "--rounds", "2"]) == 0
    out = capsys.readouterr().out
    assert "\nrounds               2 " in out
    assert "as many as are allowed" in " ".join(out.split())
    assert out.endswith("to write this as a run config, give --out FILE\n")
    assert list(tmp_path.iterdir()) == []


def test_a_config_to_start_from_keeps_what_is_not_chosen(tmp_path):
    (tmp_path / "run.toml").write_text(
        'model = "mlp"\nlearning-rate = 9.0\naccountant = "rdp"\nkeep-model = "best"\n'
    )
    words = ["plan", "--config", "run.toml", "--fit-clients", "1", "--passes", "3", "--out", "new.toml"]
    assert run_command(app, words) == 0
    found = read_config(tmp_path / "new.toml")
    assert (found.model, found.keep_model, found.fit_clients) == ("mlp", "best", 1)
    assert found.learning_rate != 9.0
    assert found.participations == "auto"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--epsilon", "-1"], "--epsilon: epsilon = -1"),
        (["--data", "digts"], "--data: data = 'digts'"),
        (["--epsilon", "3", "--set", "epsilon=2"], "epsilon = 3.0: given twice"),
        (["--set", "learning-rate=1"], "learning-rate: the rule chooses it"),
        (["--rounds", "0"], "rounds = 0"),
        (["--set", "aggregation=secure"], "members = 2: expected 3 to 100 in a secure sum"),
        (["--config", "absent.toml"], "absent.toml: no such config file"),
        (["--out", "nowhere/new.toml"], "nowhere/new.toml: cannot be written: there is no folder nowhere"),
    ],
)
def test_bad_words_are_one_line_that_names_them(words, expected, tmp_path, capsys):
    assert run_command(app, ["plan", "--out", "new.toml", *words]) == 2
    said = capsys.readouterr()
    (error,) = said.err.splitlines()
    assert error.startswith("error: ")
    assert expected in error
    assert said.out == ""
    assert list(tmp_path.iterdir()) == []


def test_from_python_it_is_the_same_config(tmp_path):
    assert run_command(app, [*WORDS, "--out", "mine.toml"]) == 0
    found = fl_dp.plan(epsilon=2.0, clients=3, accountant="rdp")
    whole = RunConfig(**{**vars(found.config), "data_root": "data"})
    assert whole == read_config(tmp_path / "mine.toml")
    with pytest.raises(fl_dp.errors.ConfigError, match="learning-rate: the rule chooses it"):
        fl_dp.plan(learning_rate=1.0)
