"""A run of a sweep goes on only as it was planned."""

from dataclasses import replace

import pytest

from fl_dp.errors import ConfigError
from fl_dp.launch.resumption import Launch
from fl_dp.launch.sweep.plan import SweepPlan
from fl_dp.launch.sweep.remaining import _check_launch
from fl_dp.reporting.run_folder import RunFolder

PLAN = SweepPlan((), public=False, ledger="", vary_mechanism=False, epsilon=None, delta=1e-5, fixed="")


def test_a_launch_that_pays_elsewhere_is_refused(tmp_path):
    plan, folder = replace(PLAN, ledger=str(tmp_path / "ledger")), RunFolder(tmp_path)
    start = Launch("ray", tmp_path / "ledger", "")
    start.write(folder)
    _check_launch(plan, folder)
    for changed in ({"ledgers": tmp_path / "fresh"}, {"vary_mechanism": True}):
        replace(start, **changed).write(folder)
        with pytest.raises(
            ConfigError, match=r"launch\.toml: names another ledger, or another vary-mechanism"
        ):
            _check_launch(plan, folder)
    Launch("ray", folder.ledgers, "").write(folder)  # a trial has its ledger in its own folder
    _check_launch(PLAN, folder)
