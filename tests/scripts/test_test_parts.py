"""All that `make test` leaves out is in one part, and a part that passed is done until a file changes."""

import subprocess
from pathlib import Path

import pytest

from scripts import test_parts

TESTS = test_parts.ROOT / "tests"


def test_every_test_file_is_in_one_part() -> None:
    covered = [path for part in test_parts.PARTS for path in map(Path, test_parts.paths(part))]
    for file in TESTS.rglob("test_*.py"):
        assert sum(file.is_relative_to(path) for path in covered) == 1, file


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with one slow test."""
    (tmp_path / "tests" / "launch").mkdir(parents=True)
    test = "import pytest\n@pytest.mark.slow\ndef test_it(): open('ran', 'a').write('x')\n"
    (tmp_path / "tests" / "launch" / "test_it.py").write_text(test)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = slow\n")
    (tmp_path / ".gitignore").write_text("ran\n/runs/\n__pycache__/\n.pytest_cache/\n")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    monkeypatch.setattr(test_parts, "ROOT", tmp_path)
    monkeypatch.setattr(test_parts, "FOLDERS", {"launch": ("launch",)})
    monkeypatch.setattr(test_parts, "MARKS", tmp_path / "runs" / "test-all")
    return tmp_path


def test_what_passed_is_run_again_only_after_an_edit(project: Path) -> None:
    for number_of_runs, edit in ((1, ""), (1, ""), (2, "# edited\n")):
        with (project / "tests" / "launch" / "test_it.py").open("a") as file:
            file.write(edit)
        assert test_parts.main(["launch", "--processes", "0"]) == 0
        assert len((project / "ran").read_text()) == number_of_runs


def test_what_failed_is_not_done(project: Path) -> None:
    (project / "tests" / "launch" / "test_it.py").write_text("import nothing_of_that_name\n")
    assert [test_parts.main(["launch", "--processes", "0"]) for _ in range(2)] == [1, 1]


def test_in_turn_every_part_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(test_parts, "passes", lambda part, processes: not asked.append(part))
    for number in range(7, 7 + len(test_parts.PARTS)):
        assert test_parts.main(["--turn", str(number)]) == 0
    assert sorted(asked) == sorted(test_parts.PARTS)
