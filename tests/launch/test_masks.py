"""`--secure` plays masks where there are masks, and in our own simulation alone."""

import pytest

from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.launch.launcher import launch
from fl_dp.launch.progress_reporter import reporting_progress
from fl_dp.launch.request import RunRequest


@pytest.mark.parametrize(
    ("engine", "aggregation", "words"),
    [
        (None, "secure", "--secure: plays masks in a simulation; add --simulate"),
        ("flower", "secure", "--secure: engine flower plays no masks"),
        ("ray", "mean", 'aggregation = .mean. has no masks; set it to "secure"'),
    ],
)
def test_elsewhere_it_is_refused_and_nothing_is_started(engine, aggregation, words, tmp_path):
    request = RunRequest(RunConfig(aggregation=aggregation), ())
    with reporting_progress(print, quiet=True) as tell, pytest.raises(ConfigError, match=words):
        launch(
            request, engine=engine, out=tmp_path / "run", ledger=None, ray_address="", tell=tell, masks=True
        )
    assert not (tmp_path / "run").exists()
