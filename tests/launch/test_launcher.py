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
from fl_dp.launch.resumption import Launch
from fl_dp.reporting.run_folder import RunFolder


def test_a_folder_that_holds_a_ledger_gets_no_run_whose_ledger_would_be_said_to_be_its_own(tmp_path):
    (tmp_path / "ledgers").mkdir()
    (tmp_path / "ledgers" / "ledger.sqlite").touch()
    options = {"engine": None, "out": tmp_path, "ledger": None, "ray_address": ""}
    with pytest.raises(ConfigError, match="holds the ledger of another run"):
        launch(RunRequest(RunConfig(), ()), tell=ProgressReporter(print, quiet=True), **options)
    assert [one.name for one in tmp_path.iterdir()] == ["ledgers"]


@pytest.fixture
def nothing_runs(tmp_path, monkeypatch):
    """A launch checks and trains nothing."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(preflight, "preflight", lambda config, **_: Checked(config, ()))
    monkeypatch.setattr("fl_dp.launch.ray_simulation.check_room", lambda config: None)
    monkeypatch.setattr(launcher, "_under_way", lambda *_: nullcontext())
    monkeypatch.setattr(launcher, "_run", lambda *_, **__: 0)


OPTIONS = {"engine": "ray", "out": Path("run"), "ledger": None, "ray_address": ""}


@pytest.mark.usefixtures("nothing_runs")
def test_what_is_said_before_a_run_fits_a_console():
    said: list[str] = []
    request = RunRequest(RunConfig(aggregation="secure"), UNPROTECTED)
    launch(request, tell=ProgressReporter(said.append, quiet=True), **OPTIONS)
    assert len(said) == 4
    assert max(len(line) for text in said for line in text.splitlines()) <= 80


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize(("asked", "engine"), [(None, "ray"), (False, "ray"), (None, None)])
def test_a_simulation_keeps_whether_it_measures_local_figures(asked, engine):
    options = {**OPTIONS, "engine": engine, "local_figures": asked}
    launch(RunRequest(RunConfig(test=0.2), ()), tell=ProgressReporter(print, quiet=True), **options)
    kept = Launch.read(RunFolder(Path("run").absolute()))
    assert kept.local_figures is (asked is None and engine == "ray")  # of public data
