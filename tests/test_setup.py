"""pyproject.toml, poetry.lock and requirements*.txt say the same, and Flower's defaults are ours.

What to do when one of these fails: `poetry lock`, then `python -m scripts.requirements`.
"""

import ast
import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from fl_dp.config.run import RunConfig
from scripts.requirements import CUDA, hashes

ROOT = Path(__file__).parents[1]
# PyTorch's CUDA builds bring one, and it is used with those alone; the other is part of pydantic.
BROUGHT_ALONG = {"triton", "pydantic_core"}


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


def test_what_fl_dp_imports_is_declared(pyproject: dict[str, Any]) -> None:
    """Else another version of Flower, or of what brought it along, takes it away."""
    project, found = pyproject["project"], packages_distributions()
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    declared = {canonicalize_name(Requirement(line).name) for group in groups for line in group}
    undeclared = {
        name
        for name in _imported() - sys.stdlib_module_names - BROUGHT_ALONG - {"fl_dp"}
        if declared.isdisjoint(map(canonicalize_name, found.get(name, [name])))
    }
    assert undeclared == set()


def _imported() -> set[str]:
    """The packages that fl_dp's files import, wherever in them."""
    found = set[str]()
    for path in (ROOT / "fl_dp").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    return found


def test_uvicorn_whose_inside_we_build_on_has_an_upper_bound(pyproject: dict[str, Any]) -> None:
    line = next(line for line in pyproject["project"]["dependencies"] if line.startswith("uvicorn"))
    assert not Requirement(line).specifier.contains("1.0")
    assert any(one.operator == "<" for one in Requirement(line).specifier)


def _pinned(name: str) -> dict[str, tuple[set[str], set[str]]]:
    """By name: the versions that requirements-NAME.txt has, and their hashes."""
    found: dict[str, tuple[set[str], set[str]]] = {}
    text = (ROOT / f"requirements-{name}.txt").read_text()
    for block in re.split(r"\n(?=[^ ])", text):
        if one := re.match(r"([\w.-]+)==(\S+) ;", block):
            versions, known = found.setdefault(canonicalize_name(one[1]), (set(), set()))
            versions.add(one[2])
            known |= set(re.findall(r"--hash=(sha256:[0-9a-f]{64})(?= |$)", block, re.M))
    return found


def test_what_sites_and_servers_install_is_pinned_with_the_locks_hashes(lock: dict[str, Any]) -> None:
    locked: dict[str, dict[str, set[str]]] = {}
    for package in lock["package"]:
        locked.setdefault(canonicalize_name(package["name"]), {})[package["version"]] = hashes(
            package["files"]
        )
    for name in ("site", "cuda"):
        for package, (versions, known) in _pinned(name).items():
            assert known
            assert known == set.union(*(locked[package][version] for version in versions)), package


def test_of_a_package_without_wheels_for_linux_all_hashes_are_pinned() -> None:
    files = [
        {"file": "a-1.tar.gz", "hash": "sha256:a"},
        {"file": "a-1-py3-none-win32.whl", "hash": "sha256:b"},
    ]
    assert hashes(files) == {"sha256:a", "sha256:b"}


def test_a_site_installs_all_that_fl_dp_needs_and_no_more(pyproject: dict[str, Any]) -> None:
    """Reports too; no tracker, no tool of developers, no beta, and no CUDA, which has a file of its own."""
    site, cuda = (_pinned(name) for name in ("site", "cuda"))
    wanted, extras = pyproject["project"]["dependencies"], pyproject["project"]["optional-dependencies"]
    needed = _closure(wanted + extras["report"])
    assert needed - site.keys() - cuda.keys() == set()
    assert all(CUDA.match(name) for name in cuda)
    assert not [name for name in site if CUDA.match(name)]
    trackers = {canonicalize_name(Requirement(line).name) for line in extras["track"]}
    assert not (trackers | {"pytest"}) & site.keys()
    assert not [one for one, (versions, _) in site.items() if any(Version(v).is_prerelease for v in versions)]


def _closure(lines: list[str]) -> set[str]:
    """What the requirements ask for on this machine, and what that asks for, by canonical name."""
    found, left = set[str](), [(Requirement(line), "") for line in lines]
    while left:
        one, extra = left.pop()
        name = canonicalize_name(one.name)
        if one.marker and not one.marker.evaluate({"extra": extra}):
            continue
        if name in found and not one.extras:
            continue
        found.add(name)
        try:
            asked = [Requirement(line) for line in requires(name) or []]
        except PackageNotFoundError:
            continue
        left += [(each, extra) for each in asked for extra in ("", *one.extras)]
    return found


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


@pytest.mark.parametrize(
    ("python", "code", "words"),
    [
        (sys.executable, 0, ""),
        ("/nowhere/python", 2, "no such program"),
        (sys._base_executable, 2, "it does not have fl_dp: run its pip install -e . here."),
    ],
)
def test_run_sh_takes_an_environment_that_is_there_if_it_has_what_is_needed(python, code, words):
    env = os.environ | {"FL_DP_PYTHON": python}
    env.pop("PYTHONPATH", None)
    done = subprocess.run([ROOT / "run.sh", "--help"], env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, words in done.stderr) == (code, True)
