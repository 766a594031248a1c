"""A release is made of a clean commit that says what it is, and twice with the same bytes."""

import subprocess
from pathlib import Path

import pytest

from scripts import release
from scripts.release import ReleaseError


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One that is ready for release 1.0.0."""
    monkeypatch.setattr(release, "ROOT", tmp_path)
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## [1.0.0] - 2026-12-01\n")
    git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    return tmp_path


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=folder, check=True)


def commit(folder: Path) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "all")


def test_what_is_ready_is_ready(checkout):
    release.check_ready("1.0.0")


def test_what_is_not_committed_is_no_part_of_a_release(checkout):
    (checkout / "more.py").touch()
    with pytest.raises(ReleaseError, match="Commit first"):
        release.check_ready("1.0.0")


@pytest.mark.parametrize("heading", ["## [Unreleased]", "## [1.0.0] - soon"])
def test_a_changelog_comes_first(checkout, heading):
    (checkout / "CHANGELOG.md").write_text(f"# Changelog\n\n{heading}\n")
    commit(checkout)
    with pytest.raises(ReleaseError, match=r"expected a heading `## \[1.0.0\] - YYYY-MM-DD`"):
        release.check_ready("1.0.0")


def test_a_version_is_tagged_once(checkout):
    git(checkout, "tag", "v1.0.0")
    with pytest.raises(ReleaseError, match=r"v1\.0\.0 is tagged"):
        release.check_ready("1.0.0")


def test_a_licence_is_what_the_package_says():
    assert release.licence("flwr") == "Apache-2.0"
    assert release.licence("torch").endswith("files in the package, first LICENSE")
    assert release.licence("of-nobody") == "not installed here"


def test_every_package_that_a_site_installs_is_in_the_list():
    names = {name for name, _ in release.pinned()}
    assert {"torch", "flwr", "ray", "nvidia-cublas"} <= names


@pytest.mark.slow  # builds two source distributions
def test_two_builds_of_one_commit_have_the_same_bytes(tmp_path):
    one, other = release.built(tmp_path / "one"), release.built(tmp_path / "other")
    release.compare(one, other)
    other[0].write_bytes(b"another")
    with pytest.raises(ReleaseError, match=r"whl: built twice"):
        release.compare(one, other)
