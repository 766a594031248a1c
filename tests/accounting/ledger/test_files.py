"""A ledger's files have one name each."""

from pathlib import Path

import pytest

from fl_dp.accounting.ledger.files import find_ledger, ledger_file
from fl_dp.errors import ConfigError

PACKAGE = Path(__file__).parents[3] / "fl_dp"


def test_a_ledger_s_folder_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "ledger.sqlite").touch()
    assert ledger_file(tmp_path) == tmp_path / "ledger.sqlite"
    with pytest.raises(ConfigError, match="expected a folder"):
        ledger_file(tmp_path / "ledger.sqlite")


def test_a_ledger_is_found_by_its_file_its_folder_or_another(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    assert find_ledger(tmp_path / "not there", other) == tmp_path / "not there"
    with pytest.raises(ConfigError, match=r"looked for .*/ledger.sqlite and .*/other/ledger.sqlite"):
        find_ledger(tmp_path, other)
    (other / "ledger.sqlite").touch()
    assert find_ledger(tmp_path, other) == other / "ledger.sqlite"
    (tmp_path / "ledger.sqlite").touch()
    assert find_ledger(tmp_path, other) == tmp_path / "ledger.sqlite"


@pytest.mark.parametrize("name", ['"ledger.sqlite"', '"statements.jsonl"'])
def test_nobody_else_writes_these_names(name: str) -> None:
    files = {str(one.relative_to(PACKAGE)) for one in PACKAGE.rglob("*.py") if name in one.read_text()}
    assert files == {"accounting/ledger/files.py"}
