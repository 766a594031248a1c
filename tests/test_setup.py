"""pyproject.toml, poetry.lock and requirements.txt say the same, and Flower's defaults are ours.

What to do when one of these fails: `poetry lock`, then
`poetry export --with dev,pins --without-hashes -o requirements.txt`.
"""

import hashlib
import json
import os
import shutil
import stat
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from fl_dp.config.run import RunConfig

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.fixture(scope="module")
def lock() -> dict[str, Any]:
    return tomllib.loads((ROOT / "poetry.lock").read_text())


@pytest.fixture(scope="module")
def exported() -> list[Requirement]:
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith(("#", "--"))]


def test_lock_was_made_from_this_pyproject(pyproject: dict[str, Any], lock: dict[str, Any]) -> None:
    # Poetry 2's Locker._get_content_hash: the sections that decide what is locked.
    keys = ("requires-python", "dependencies", "optional-dependencies")
    project = {key: pyproject["project"][key] for key in keys if key in pyproject["project"]}
    poetry = pyproject["tool"]["poetry"]
    own = ("dependencies", "source", "extras", "dev-dependencies", "group")
    relevant = {
        "project": project,
        "dependency-groups": pyproject["dependency-groups"],
        "tool": {"poetry": {key: poetry[key] for key in own if key in poetry}},
    }
    digest = hashlib.sha256(json.dumps(relevant, sort_keys=True).encode()).hexdigest()
    assert lock["metadata"]["content-hash"] == digest


def test_export_has_exactly_the_locked_versions(lock: dict[str, Any], exported: list[Requirement]) -> None:
    locked = {(canonicalize_name(package["name"]), package["version"]) for package in lock["package"]}
    pinned = {(canonicalize_name(one.name), str(one.specifier).removeprefix("==")) for one in exported}
    assert pinned == locked


def test_export_satisfies_every_declared_dependency(
    pyproject: dict[str, Any], exported: list[Requirement]
) -> None:
    groups = [pyproject["project"]["dependencies"], *pyproject["dependency-groups"].values()]
    for requirement in [Requirement(line) for group in groups for line in group]:
        versions = [
            str(one.specifier).removeprefix("==")
            for one in exported
            if canonicalize_name(one.name) == canonicalize_name(requirement.name)
        ]
        assert versions, f"{requirement.name} is not in requirements.txt"
        assert all(requirement.specifier.contains(version) for version in versions), requirement


def test_flower_knows_every_run_config_key_as_run_sh_has_it(pyproject: dict[str, Any]) -> None:
    default = RunConfig.from_toml(ROOT / "configs" / "digits.toml")
    assert pyproject["tool"]["flwr"]["app"]["config"] == default.to_flat()


@pytest.mark.parametrize("path", sorted((ROOT / "configs").glob("*.toml")), ids=lambda path: path.stem)
def test_shipped_configs_are_valid(path: Path) -> None:
    RunConfig.from_toml(path)


@pytest.mark.parametrize("name", ["run.sh", "scripts/setup.sh", ".ci/run"])
def test_scripts_are_executable_and_name_no_host(name: str) -> None:
    assert os.stat(ROOT / name).st_mode & stat.S_IXUSR
    assert "://" not in (ROOT / name).read_text()


# In place of a Python: it makes environments of itself, and notes how pip was called.
PYTHON = """#!/usr/bin/env bash
case "$1 $2" in
    "-m venv") mkdir -p "$3/bin" && cp "$0" "$3/bin/python" && echo 1 >"$3/pyvenv.cfg" ;;
    "-m pip") env | grep ^PIP_ >>"$(dirname "$0")/pip.txt" ;;
esac
"""


def test_the_set_up_draws_no_bars_and_its_last_line_says_how_to_call_fl_dp(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/setup.sh", tmp_path / "scripts")
    for name in ("requirements.txt", "pyproject.toml"):
        (tmp_path / name).touch()
    python = tmp_path / "path/python3.12"
    python.parent.mkdir()
    python.write_text(PYTHON)
    python.chmod(0o755)
    found = os.environ | {"PATH": f"{python.parent}:{os.environ['PATH']}"}
    ended = subprocess.run(
        [tmp_path / "scripts/setup.sh"], env=found, capture_output=True, text=True, check=True
    )
    assert (tmp_path / ".venv/bin/pip.txt").read_text().count("PIP_PROGRESS_BAR=off") == 2
    last = ended.stderr.splitlines()[-1]
    assert "source .venv/bin/activate" in last
    assert ".venv/bin/fl-dp" in last
