"""The random changes: chosen by a seed, tried in a copy, kept in a file that can be gone on with."""

import subprocess
from pathlib import Path

import pytest

from scripts.mutation import __main__ as mutation
from scripts.mutation.changes import find_changes
from scripts.mutation.results import append_trial, read_trials
from scripts.mutation.tests_of import DEFAULT_PARTS, files_of, folders_of, mirrored_test
from scripts.mutation.trial import Trial, Workshop

SOURCE = """
def larger(a, b):
    return a if a > b else b


def untested(count):
    return count * 2
"""
TEST = """
from fl_dp.small import larger

def test_larger():
    assert larger(1, 2) == 2
"""
ENDLESS = """
def larger(a, b):
    while a < b:
        a += 1
    return a
"""
FILE = "fl_dp/small.py"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one file of source and one of tests."""
    root = tmp_path / "repository"
    files = {FILE: SOURCE, "fl_dp/__init__.py": "", "tests/test_small.py": TEST, ".gitignore": "runs\n"}
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "pyproject.toml").write_text('[tool.pytest.ini_options]\nmarkers = ["slow"]\n')
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    monkeypatch.setattr(mutation, "ROOT", root)
    return root


def test_the_seed_chooses_and_a_larger_sample_goes_on_from_a_smaller():
    parts = ("training", "reporting")
    first = mutation.choose(parts, 20, seed=1)
    assert first == mutation.choose(parts, 30, seed=1)[:20]
    assert first != mutation.choose(parts, 20, seed=2)
    chosen = [change.file.split("/")[1] for change in first]
    assert {part: chosen.count(part) for part in parts} == {"training": 10, "reporting": 10}


def test_every_part_has_files_and_tests():
    for part in DEFAULT_PARTS:
        files = files_of(part, mutation.ROOT)
        assert files
        assert not [file for file in files if file.endswith("gram_triton.py")]
        assert all(folders_of(file, mutation.ROOT) for file in files)
    assert mirrored_test("fl_dp/engine/probe.py", mutation.ROOT) == "tests/engine/test_probe.py"
    with pytest.raises(SystemExit, match="nothing: no part of fl_dp"):
        files_of("nothing", mutation.ROOT)


def test_the_copy_holds_what_git_would_add_and_the_original_stays(root, tmp_path):
    (root / "runs").mkdir()
    (root / "runs" / "ignored").touch()
    Workshop(root, tmp_path / "shop")
    assert (tmp_path / "shop" / "copy" / FILE).read_text() == SOURCE
    assert not (tmp_path / "shop" / "copy" / "runs").exists()
    assert (root / FILE).read_text() == SOURCE


@pytest.mark.slow
def test_a_run_reports_survivors_and_can_try_them_again(root, capsys):
    results = root / "runs" / "mutants-0.jsonl"
    mutation.main(["small", "--number", "200"])
    survivors = {one.after for one, trial in read_trials(results).values() if trial.verdict == "survived"}
    untested = {f"return {changed}" for changed in ("None", "count * 1", "count * 3", "count / 2")}
    assert survivors == {"return a if a >= b else b", *untested}
    output = capsys.readouterr().out
    assert "SURVIVED (comparison, in larger)\n    - return a if a > b else b" in output
    assert output.endswith("noticed 2 of 7\n")
    assert (root / FILE).read_text() == SOURCE

    mutation.main(["small", "--number", "200"])  # nothing is tried twice
    assert "0 of 7 changes to try" in capsys.readouterr().out

    more = "\ndef test_untested():\n    from fl_dp.small import untested\n    assert untested(2) == 4\n"
    (root / "tests" / "test_small.py").write_text(TEST + more)
    mutation.main(["--survivors", str(results)])
    assert capsys.readouterr().out.endswith("noticed 4 of 5\n")
    mutation.main(["--survivors", str(results)])
    assert capsys.readouterr().out.endswith("noticed 0 of 1\n")


@pytest.mark.slow
def test_tests_that_fail_without_any_change_say_nothing(root):
    (root / "tests" / "test_small.py").write_text("def test():\n    assert False\n")
    with pytest.raises(SystemExit, match="fails without any change"):
        mutation.main(["small"])


@pytest.mark.slow
def test_a_change_that_never_ends_is_noticed(root, tmp_path):
    (root / FILE).write_text(ENDLESS)
    shop = Workshop(root, tmp_path / "shop")
    (endless,) = [change for change in find_changes(FILE, ENDLESS) if change.after == "a -= 1"]
    shop._limits[folders_of(FILE, root)] = 3.0
    assert shop.try_change(endless).verdict == "timed out"


def test_of_several_trials_of_a_change_the_last_counts_and_a_torn_line_does_not(tmp_path):
    path = tmp_path / "runs" / "results.jsonl"
    assert read_trials(path) == {}
    change = find_changes(FILE, SOURCE)[0]
    append_trial(path, change, Trial("survived", "tests/test_small.py", 1.5))
    append_trial(path, change, Trial("noticed", "tests/test_small.py", 1.0))
    with path.open("a") as file:
        file.write('{"file": "fl')
    assert read_trials(path) == {change.key: (change, Trial("noticed", "tests/test_small.py", 1.0))}


def test_a_change_that_is_gone_is_not_counted():
    trials = [Trial(verdict, "", 1.0) for verdict in ("noticed", "timed out", "survived", "gone")]
    assert mutation.summary(trials) == "noticed 2 of 3; 1 are gone from the source"
