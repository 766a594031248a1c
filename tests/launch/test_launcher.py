"""What does not go together is refused before anything is started."""

import pytest

from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.launch.launcher import launch
from fl_dp.launch.progress_reporter import ProgressReporter
from fl_dp.launch.request import RunRequest

VARY, MASKS = {"vary_mechanism": True}, {"masks": True}


@pytest.mark.parametrize(
    ("engine", "aggregation", "asked", "words"),
    [
        (None, "secure", MASKS, "--secure: plays masks in a simulation; add --simulate"),
        ("flower", "secure", MASKS, "--secure: engine flower plays no masks"),
        ("ray", "mean", MASKS, 'aggregation = .mean. has no masks; set it to "secure"'),
        (None, "mean", VARY, "others have settings of their own"),
        ("flower", "mean", VARY, "others have settings of their own"),
    ],
)
def test_what_an_engine_cannot_is_refused_and_nothing_is_started(engine, aggregation, asked, words, tmp_path):
    request = RunRequest(RunConfig(aggregation=aggregation), ())
    options = {"out": tmp_path / "run", "ledger": None, "ray_address": "", **asked}
    with pytest.raises(ConfigError, match=words):
        launch(request, engine=engine, tell=ProgressReporter(print, quiet=True), **options)
    assert not (tmp_path / "run").exists()


def test_a_folder_that_holds_a_ledger_gets_no_run_whose_ledger_would_be_said_to_be_its_own(tmp_path):
    (tmp_path / "ledgers").mkdir()
    (tmp_path / "ledgers" / "ledger.sqlite").touch()
    options = {"engine": None, "out": tmp_path, "ledger": None, "ray_address": ""}
    with pytest.raises(ConfigError, match="holds the ledger of another run"):
        launch(RunRequest(RunConfig(), ()), tell=ProgressReporter(print, quiet=True), **options)
    assert [one.name for one in tmp_path.iterdir()] == ["ledgers"]
