"""Where a ledger is looked for."""

from pathlib import Path

import pytest

from fl_dp.errors import ConfigError
from fl_dp.launch.named_ledger import named_ledger
from fl_dp.launch.resumption import Launch
from fl_dp.reporting.run_folder import RunFolder


def made(file: Path) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    return file


def test_a_file_is_what_it_is_whether_it_is_there_or_not(tmp_path):
    assert named_ledger(tmp_path / "some.sqlite") == tmp_path / "some.sqlite"


def test_a_folder_of_ledgers_and_a_run_s_folder_hold_one(tmp_path):
    file = made(tmp_path / "run" / "ledgers" / "ledger.sqlite")
    assert named_ledger(tmp_path / "run" / "ledgers") == file
    assert named_ledger(tmp_path / "run") == file


def test_a_run_whose_ledgers_are_elsewhere_says_where(tmp_path):
    file = made(tmp_path / "lasting" / "ledger.sqlite")
    (tmp_path / "run").mkdir()
    Launch("ray", tmp_path / "lasting", "").write(RunFolder(tmp_path / "run"))
    assert named_ledger(tmp_path / "run") == file


def test_a_folder_without_one_is_refused_with_what_was_looked_for(tmp_path):
    (tmp_path / "ledgers").mkdir()
    with pytest.raises(
        ConfigError, match=r"holds no ledger; looked for .*/ledger.sqlite and .*/ledgers/ledger"
    ):
        named_ledger(tmp_path)
