"""What does not go together is refused before anything is started."""

from contextlib import nullcontext
from pathlib import Path

import pytest

from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.launch import launcher, preflight
from fl_dp.launch.launcher import launch
from fl_dp.launch.preflight import Checked
from fl_dp.launch.progress_reporter import ProgressReporter
from fl_dp.launch.request import UNPROTECTED, RunRequest


def test_a_folder_that_holds_a_ledger_gets_no_run_whose_ledger_would_be_said_to_be_its_own(tmp_path):
    (tmp_path / "ledgers").mkdir()
    (tmp_path / "ledgers" / "ledger.sqlite").touch()
    options = {"engine": None, "out": tmp_path, "ledger": None, "ray_address": ""}
    with pytest.raises(ConfigError, match="holds the ledger of another run"):
        launch(RunRequest(RunConfig(), ()), tell=ProgressReporter(print, quiet=True), **options)
    assert [one.name for one in tmp_path.iterdir()] == ["ledgers"]


def test_what_is_said_before_a_run_fits_a_console(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(preflight, "preflight", lambda config, **_: Checked(config, ()))
    monkeypatch.setattr("fl_dp.launch.ray_simulation.check_room", lambda config: None)
    monkeypatch.setattr(launcher, "_under_way", lambda *_: nullcontext())
    monkeypatch.setattr(launcher, "_run", lambda *_, **__: 0)
    said: list[str] = []
    request = RunRequest(RunConfig(aggregation="secure"), UNPROTECTED)
    options = {"engine": "ray", "out": Path("run"), "ledger": None, "ray_address": ""}
    launch(request, tell=ProgressReporter(said.append, quiet=True), **options)
    assert len(said) == 4
    assert max(len(line) for text in said for line in text.splitlines()) <= 80
