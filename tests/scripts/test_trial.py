"""A listed change is tried in a copy, and undone."""

import subprocess
from pathlib import Path

import pytest

from scripts.mutation import trial
from scripts.mutation.listed import ROOT as REPOSITORY
from scripts.mutation.listed import ListedChange, listed_changes
from scripts.mutation.trial import Workshop, folders_of, mirrored_test

SOURCE = """
def larger(a, b):
    return a if a > b else b
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
def root(tmp_path: Path) -> Path:
    """A repository with one file of source and one of tests."""
    root = tmp_path / "repository"
    files = {FILE: SOURCE, "fl_dp/__init__.py": "", "tests/test_small.py": TEST, ".gitignore": "runs\n"}
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "pyproject.toml").write_text('[tool.pytest.ini_options]\nmarkers = ["slow"]\n')
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    return root


def test_every_changed_file_has_tests():
    assert all(folders_of(one.file, REPOSITORY) for one in listed_changes())
    assert mirrored_test("fl_dp/engine/probe.py", REPOSITORY) == "tests/engine/test_probe.py"


def test_the_copy_holds_what_git_would_add_and_the_original_stays(root, tmp_path):
    (root / "runs").mkdir()
    (root / "runs" / "ignored").touch()
    Workshop(root, tmp_path / "shop")
    assert (tmp_path / "shop" / "copy" / FILE).read_text() == SOURCE
    assert not (tmp_path / "shop" / "copy" / "runs").exists()
    assert (root / FILE).read_text() == SOURCE


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [("a > b", "a < b", "noticed"), ("a > b", "a >= b", "survived"), ("c > b", "c < b", "gone")],
)
def test_a_change_is_tried_and_undone(root, tmp_path, old, new, verdict):
    shop = Workshop(root, tmp_path / "shop")
    change = ListedChange("change", "promise", FILE, old, new)
    assert shop.try_source(FILE, change.applied).verdict == verdict
    assert (tmp_path / "shop" / "copy" / FILE).read_text() == SOURCE
    assert (root / FILE).read_text() == SOURCE


@pytest.mark.slow
def test_a_change_that_never_ends_is_noticed(root, tmp_path, monkeypatch):
    monkeypatch.setattr(trial, "_LIMIT", 3.0)
    (root / FILE).write_text(ENDLESS)
    shop = Workshop(root, tmp_path / "shop")
    assert shop.try_source(FILE, lambda text: text.replace("a += 1", "a -= 1")).verdict == "timed out"
