"""fl_dp as a wheel, in an empty folder and without its extras: it brings all that its commands need."""

import os
import subprocess
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path

import pytest

from fl_dp.optional import EXTRAS
from scripts.build import build

ROOT = Path(__file__).parents[2]
IN_A_CLONE = ("examples", "deploy", "docs", "benchmarks", "tests", "scripts", "fl_dp")

# Read by Python at its start: packages that only extras bring are not there, nor their metadata. Those of the
# report stay, since other dependencies bring them in any case.
WITHOUT_EXTRAS = """
import sys
from importlib.metadata import Distribution, PackageNotFoundError

for name in {names!r}:
    sys.modules[name] = None
found = Distribution.from_name

def from_name(name):
    if name in {names!r}:
        raise PackageNotFoundError(name)
    return found(name)

Distribution.from_name = from_name
"""
HIDDEN = sorted(name for name, extra in EXTRAS.items() if extra != "report")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel and the source distribution."""
    return build(tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="module")
def site(built: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip has installed the wheel, alone."""
    folder = tmp_path_factory.mktemp("wheel") / "site"
    words = ["install", "--quiet", "--no-deps", "--no-index", "--target", str(folder), str(built[0])]
    subprocess.run([sys.executable, "-m", "pip", *words], check=True)
    (folder / "sitecustomize.py").write_text(WITHOUT_EXTRAS.format(names=HIDDEN))
    return folder


def test_the_source_distribution_is_what_a_clone_is(built):
    with tarfile.open(built[1]) as archive:
        held = {member.name.partition("/")[2]: member for member in archive.getmembers()}
    tracked = subprocess.run(
        ["git", "ls-files", "--", *IN_A_CLONE], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.split()
    here = tracked or [file for file in held if file.startswith(IN_A_CLONE)]  # a clone, or this very archive
    assert set(here) - set(held) == set()
    assert {"run.sh", "Makefile", "mkdocs.yml", "README.md", "server.py", "scripts/setup.sh"} <= set(held)
    assert held["run.sh"].mode & held["scripts/setup.sh"].mode & 0o100
    assert not [
        file for file in held if "__pycache__" in file or file.startswith(("runs/", "site/", ".venv"))
    ]


def fl_dp(site: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "fl_dp", *words]
    env = os.environ | {"PYTHONPATH": str(site)}
    return subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=600
    )


def test_it_brings_the_configs_and_the_template(site):
    shipped = {path.name for path in (ROOT / "configs").glob("*.toml")}
    assert {path.name for path in (site / "fl_dp" / "configs").iterdir()} == shipped
    template = {path.name for path in (ROOT / "fl_dp" / "cli" / "new_folder").iterdir()}
    assert {path.name for path in (site / "fl_dp" / "cli" / "new_folder").iterdir()} == template
    brought = {path.name for path in site.iterdir()} - {"bin", "sitecustomize.py", "__pycache__"}
    assert brought == {"fl_dp", f"fl_dp-{version('fl-dp')}.dist-info"}


def test_it_is_small(built):
    assert built[0].stat().st_size < 1.3e6


@pytest.mark.slow
def test_what_needs_an_extra_says_so(site, tmp_path):
    asked = fl_dp(site, tmp_path, "run", "--config", "configs/cifar10.toml", "--set", "model=timm:resnet18")
    assert asked.returncode == 2
    assert "which is not installed: pip install" in asked.stderr


@pytest.mark.slow
def test_a_new_folder_trains_and_its_model_can_be_used(site, tmp_path):
    assert fl_dp(site, tmp_path, "new", "mine").returncode == 0
    run = ["run", "--config", "mine/run.toml", "--simulate", "--out", "run", "--set", "rounds=2"]
    trained = fl_dp(site, tmp_path, *run)
    assert trained.returncode == 0, trained.stderr
    exported = fl_dp(site, tmp_path, "export", "run", "--to", "safetensors")
    assert exported.returncode == 0, exported.stderr
    assert (tmp_path / "run" / "export" / "card.json").exists()


@pytest.mark.slow
def test_processes_of_their_own_start_without_a_checkout(site, tmp_path):
    trained = fl_dp(site, tmp_path, "run", "--out", "run", "2", "2", "2", "1")
    assert trained.returncode == 0, trained.stderr
    assert "round 1/1" in trained.stdout
