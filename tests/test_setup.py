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
    assert pyproject["tool"]["flwr"]["app"]["config"] == default.to_flat(), "see [tool.flwr.app.config]"


@pytest.mark.parametrize("path", sorted((ROOT / "configs").glob("*.toml")), ids=lambda path: path.stem)
def test_shipped_configs_are_valid(path: Path) -> None:
    RunConfig.from_toml(path)


@pytest.mark.parametrize("name", ["run.sh", "scripts/setup.sh", ".ci/run"])
def test_scripts_are_executable_and_name_no_host(name: str) -> None:
    assert os.stat(ROOT / name).st_mode & stat.S_IXUSR
    assert "://" not in (ROOT / name).read_text()


# In place of a Python: it makes environments of itself, and notes what it was called for. The index of
# builds for CPUs answers if INDEX is set.
PYTHON = f"""#!/usr/bin/env bash
exec 3>>"$NOTES"
case "$*" in
    "-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" && echo "made" >&3 ;;
    "-m pip "*/dev/stdin) echo "tools: $(tr '\\n' ' ')" >&3 ;;
    "-m pip "*) echo "bar $PIP_PROGRESS_BAR ${{*:3}}" >&3; [[ "$*" != *-cpu.txt* || -n "${{INDEX:-}}" ]] ;;
    "- "*) exec "{sys.executable}" "$@" ;;
    "-P "*) echo "ran ${{*:3}}" >&3 ;;
esac
"""


class Checkout:
    """A folder with the scripts, and such a Python first on PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.venv, self.notes = folder, folder / ".venv", folder / "notes"
        self.path = folder / "path"
        (folder / "scripts").mkdir()
        for name in ("run.sh", "scripts/setup.sh", "requirements.txt", "pyproject.toml"):
            shutil.copy(ROOT / name, folder / name)
        self.program("python3.12", PYTHON)

    def program(self, name: str, text: str) -> None:
        self.path.mkdir(exist_ok=True)
        (self.path / name).write_text(text)
        (self.path / name).chmod(0o755)

    def call(self, script: str, *words: str, code: int = 0, **env: str) -> tuple[str, str]:
        """What it says, and what it has Python do."""
        self.notes.write_text("")
        env = {"PATH": f"{self.path}:{os.environ['PATH']}", "NOTES": str(self.notes), **env}
        done = subprocess.run([self.folder / script, *words], env=env, capture_output=True, text=True)
        assert done.returncode == code, done.stderr
        return done.stderr, self.notes.read_text()

    def set_up(self, *words: str, code: int = 0, **env: str) -> tuple[str, str]:
        return self.call("scripts/setup.sh", *words, code=code, **env)

    @property
    def words(self) -> str:
        return (self.venv / ".words").read_text().strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


no_driver = pytest.mark.skipif(
    Path("/proc/driver/nvidia/version").exists() or shutil.which("nvidia-smi") is not None,
    reason="this machine has a driver of NVIDIA's",
)


def test_the_set_up_draws_no_bars_and_its_last_line_says_how_to_call_fl_dp(checkout: Checkout) -> None:
    said, done = checkout.set_up("--cuda")
    assert re.fullmatch(r"made\nbar off install .* -e \S+\[report,vision\]\n", done)
    last = said.splitlines()[-1]
    assert "source .venv/bin/activate" in last
    assert ".venv/bin/fl-dp" in last


@no_driver
@pytest.mark.parametrize(("index", "build"), [("answers", "--cpu"), ("", "--cuda")])
def test_without_a_driver_the_build_for_cpus_is_taken_if_its_index_answers(checkout, index, build):
    said, done = checkout.set_up(INDEX=index)
    assert "-r " + str(checkout.folder / "requirements-cpu.txt --timeout 10 --retries 0") in done
    assert ("taking PyPI's build, with CUDA" in said) == (build == "--cuda")
    assert checkout.words == build
    assert checkout.set_up(INDEX="answers") == ("", "")


def test_with_a_driver_no_other_index_is_asked(checkout: Checkout) -> None:
    checkout.program("nvidia-smi", "")
    assert "requirements-cpu.txt" not in checkout.set_up(INDEX="answers")[1]
    assert checkout.words == "--cuda"


def test_cpu_is_never_answered_with_cuda(checkout: Checkout) -> None:
    said, done = checkout.set_up("--cpu", code=1)
    assert said.splitlines()[-1].startswith("error: no PyTorch from the index in requirements-cpu.txt;")
    assert "-e" not in done.split()
    checkout.set_up("--cpu", INDEX="answers")
    (checkout.folder / "requirements.txt").write_text("changed")
    checkout.set_up(code=1)


def test_developers_tools_are_added_to_what_is_there_and_stay(checkout: Checkout) -> None:
    assert "tools:" not in checkout.set_up("--cuda")[1]
    done = checkout.set_up("--dev")[1]
    assert "made" not in done
    assert re.search(r"^tools: .*\bpytest>=", done, re.M)
    assert checkout.words == "--cuda --dev"
    assert checkout.set_up() == checkout.set_up("--dev") == checkout.set_up("--cuda") == ("", "")
    (checkout.folder / "requirements.txt").write_text("changed")
    assert "tools:" in checkout.set_up()[1]


def test_the_other_build_makes_venv_anew(checkout: Checkout) -> None:
    checkout.set_up("--dev", "--cpu", INDEX="answers")
    assert checkout.set_up("--cuda")[1].startswith("made\n")
    assert checkout.words == "--cuda --dev"
    assert checkout.set_up("--cpu", INDEX="answers")[1].startswith("made\n")


def test_a_venv_from_before_there_were_choices_is_kept(checkout: Checkout) -> None:
    checkout.set_up("--cuda")
    (checkout.venv / ".words").unlink()
    assert checkout.set_up() == ("", "")
    assert "made" not in checkout.set_up("--dev")[1]
    assert checkout.words == "--cuda --dev"


def test_a_word_that_is_none_is_refused(checkout: Checkout) -> None:
    assert "--gpu: scripts/setup.sh knows --dev, --cpu and --cuda." in checkout.set_up("--gpu", code=2)[0]


def test_run_sh_hands_the_build_to_the_set_up_and_the_rest_to_the_run(checkout: Checkout) -> None:
    done = checkout.call("run.sh", "--simulate", "--cuda", "2", "--out", "a b")[1]
    assert checkout.words == "--cuda"
    assert done.splitlines()[-1] == "ran fl_dp.cli.run --simulate 2 --out a b"


def test_the_build_for_cpus_is_the_locks(lock: dict[str, Any]) -> None:
    locked = {one["name"]: one["version"] for one in lock["package"]}
    lines = (ROOT / "requirements-cpu.txt").read_text().splitlines()[1:]
    assert lines[0] == "--index-url https://download.pytorch.org/whl/cpu"
    assert [line.split(" ;")[0] for line in lines[1:]] == [
        f"{name}=={locked[name]}+cpu" for name in ("torch", "torchvision")
    ]


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
