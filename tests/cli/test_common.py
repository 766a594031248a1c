"""A shipped config is found without a checkout, and nothing else is taken for it."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from fl_dp.cli.common import CONFIGS, run_command, shipped, stop_on_signals
from fl_dp.cli.main import app


def test_a_shipped_config_is_found_in_any_folder_and_no_other_file_is_replaced(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    digits = Path("configs/digits.toml")
    assert (shipped(digits), shipped(None)) == (CONFIGS / "digits.toml", None)
    for name in ("digits.toml", "mine/configs/digits.toml", "configs/other.toml"):
        assert shipped(Path(name)) == Path(name)
    digits.parent.mkdir()
    digits.write_text("rounds = 1\n")
    assert shipped(digits) == digits  # a file that is there comes first


@pytest.mark.parametrize("command", ["run", "audit", "check", "server"])
def test_commands_that_take_a_run_config_look_there(command, tmp_path, monkeypatch, capsys):
    """The config is read, and what comes with it is wrong: an error of the key, not of the file."""
    monkeypatch.chdir(tmp_path)
    words = ["--config", "configs/digits.toml"]
    wrong = ["--runs", "0"] if command == "audit" else ["--set", "no-such-key=1"]
    assert run_command(app, [command, *words, *wrong]) == 2
    assert "configs/digits.toml" not in capsys.readouterr().err


@pytest.mark.parametrize("command", ["run", "check"])
def test_an_option_that_is_not_there_is_told_with_the_one_that_was_meant(command, capsys):
    for word in ("--confg", "--confg=x"):
        assert run_command(app, [command, word]) == 2
        assert capsys.readouterr().err == f"error: {word}: no such option; did you mean --config?\n"
    assert run_command(app, [command, "--zzz"]) == 2
    assert "see --help" in capsys.readouterr().err


@pytest.fixture(autouse=True)
def _not_under_nohup() -> Iterator[None]:
    """Pytest itself may have been started with SIGHUP ignored."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_stops_and_later_ones_do_not_disturb_the_clean_up(sent):
    before = signal.getsignal(sent)
    cleaned = []

    def launch() -> None:
        with stop_on_signals():
            try:
                os.kill(os.getpid(), sent)
            finally:
                os.kill(os.getpid(), signal.SIGINT)
                os.kill(os.getpid(), sent)
                cleaned.append(True)

    with pytest.raises(KeyboardInterrupt):
        launch()
    assert cleaned
    assert signal.getsignal(sent) == before


def test_under_nohup_a_closed_terminal_stops_nothing():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_on_signals():
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)
