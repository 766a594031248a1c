"""A run of a sweep goes on only as it was planned."""

from dataclasses import replace

import pytest

from fl_dp.errors import ConfigError
from fl_dp.launch.resumption import Launch
from fl_dp.launch.sweep.plan import SweepPlan
from fl_dp.launch.sweep.remaining import _check_launch
from fl_dp.reporting.run_folder import RunFolder

PLAN = SweepPlan((), public=False, ledger="", vary_mechanism=False, epsilon=None, delta=1e-5, fixed="")


@pytest.mark.parametrize("changed", [{"ledgers": "fresh"}, {"vary_mechanism": True}])
def test_a_launch_that_pays_elsewhere_is_refused(changed, tmp_path):
    plan = replace(PLAN, ledger=str(tmp_path / "ledger"))
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    start = Launch("ray", tmp_path / "ledger", "")
    start.write(folder)
    _check_launch(plan, folder)
    if "ledgers" in changed:
        changed = {"ledgers": tmp_path / "fresh"}
    replace(start, **changed).write(folder)
    with pytest.raises(ConfigError, match=r"launch\.toml: names another ledger, or another vary-mechanism"):
        _check_launch(plan, folder)


def test_a_trial_has_its_ledger_in_its_own_folder(tmp_path):
    folder = RunFolder(tmp_path)
    Launch("ray", folder.ledgers, "").write(folder)
    _check_launch(PLAN, folder)
