"""The run without privacy beside one with: of public records alone, and otherwise the same."""

from dataclasses import replace
from pathlib import Path

import pytest
from launch.commands import trained

from fl_dp.cli.common import run_command
from fl_dp.cli.main import app
from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.launch.baseline import without_privacy


def test_it_is_the_same_run_but_for_clipping_and_noise() -> None:
    config = RunConfig(weights="noise", rounds=7)
    assert without_privacy(config) == RunConfig(privacy="off", rounds=7)


def test_private_records_are_refused_and_so_is_what_there_is_only_with_privacy() -> None:
    private = RunConfig(data="csv:patients.csv", schema="schema.toml")
    with pytest.raises(ConfigError, match="only for public or synthetic ones, which public-data = true"):
        without_privacy(private)
    assert without_privacy(replace(private, public_data=True)).privacy == "off"
    with pytest.raises(ConfigError, match="--baseline: the run is without privacy itself"):
        without_privacy(RunConfig(privacy="off"))
    with pytest.raises(ConfigError, match="--baseline: privacy = 'off': expected on, as a sum"):
        without_privacy(RunConfig(aggregation="secure", clients=10, fit_clients=10, min_clients=10))


def test_nothing_is_started_for_private_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def launch(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr("fl_dp.launch.launcher.launch", launch)
    monkeypatch.chdir(tmp_path)
    assert run_command(app, ["run", "--baseline", "--set", "data=csv:a.csv", "--set", "schema=s.toml"]) == 2
    assert "--baseline: trains on the same records without any protection" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("words", [(), ("--simulate",)])
def test_both_are_run_and_shown_side_by_side(words: tuple[str, ...], tmp_path: Path) -> None:
    out, ledger = tmp_path / "run", tmp_path / "ledger"
    said = trained(
        "run", *words, "--baseline", "--out", str(out), "--ledger", str(ledger), settings=("rounds=1",)
    )
    assert "for comparison, the best constant prediction: accuracy 0.1" in said
    assert "without, NOT PRIVATE: accuracy 0.9" in said
    page = (out / "baseline.html").read_text()
    assert "NOT PRIVATE" in page
    trained("verify", str(out))  # the account of the private run knows nothing of the other
