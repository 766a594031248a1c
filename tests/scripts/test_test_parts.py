"""All that `make test` leaves out is in one part, and a part fails where a test of it does."""

from pathlib import Path

import pytest

from scripts import test_parts

TESTS = test_parts.ROOT / "tests"


def test_every_test_file_is_in_one_part() -> None:
    covered = [path for part in test_parts.PARTS for path in map(Path, test_parts.paths(part))]
    for file in TESTS.rglob("test_*.py"):
        assert sum(file.is_relative_to(path) for path in covered) == 1, file


def test_a_part_fails_where_one_of_its_tests_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_parts, "ROOT", tmp_path)
    (tmp_path / "tests" / "launch").mkdir(parents=True)
    (tmp_path / "tests" / "attacks").mkdir()
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = slow\n")
    for body, code in (("pass", 0), ("1 / 0", 1)):
        test = f"import pytest\n@pytest.mark.slow\ndef test_it(): {body}\n"
        (tmp_path / "tests" / "launch" / "test_it.py").write_text(test)
        assert test_parts.main(["launch", "--processes", "0"]) == code


def test_in_turn_every_part_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(test_parts, "passes", lambda part, processes: not asked.append(part))
    for number in range(7, 7 + len(test_parts.PARTS)):
        assert test_parts.main(["--turn", str(number)]) == 0
    assert sorted(asked) == sorted(test_parts.PARTS)
