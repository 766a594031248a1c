"""Where a ledger is looked for."""

import pytest

from fl_dp.errors import ConfigError
from fl_dp.launch.named_ledger import named_ledger
from fl_dp.launch.resumption import Launch
from fl_dp.reporting.run_folder import RunFolder


def test_a_file_is_what_it_is_and_a_folder_or_a_run_holds_one(tmp_path):
    assert named_ledger(tmp_path / "some.sqlite") == tmp_path / "some.sqlite"  # whether it is there or not
    for folder in ("run/ledgers", "lasting"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "ledger.sqlite").touch()
        assert named_ledger(tmp_path / folder) == tmp_path / folder / "ledger.sqlite"
    assert named_ledger(tmp_path / "run") == tmp_path / "run/ledgers/ledger.sqlite"
    (tmp_path / "other").mkdir()
    Launch("ray", tmp_path / "lasting", "").write(
        RunFolder(tmp_path / "other")
    )  # a run whose ledgers are elsewhere
    assert named_ledger(tmp_path / "other") == tmp_path / "lasting/ledger.sqlite"


def test_a_folder_without_one_is_refused_with_what_was_looked_for(tmp_path):
    (tmp_path / "ledgers").mkdir()
    with pytest.raises(
        ConfigError, match=r"holds no ledger; looked for .*/ledger.sqlite and .*/ledgers/ledger"
    ):
        named_ledger(tmp_path)
