"""fl_dp as a wheel, in an empty folder: it brings all that its commands need."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the wheel holds."""
    folder = tmp_path_factory.mktemp("wheel")
    code = f"from poetry.core.masonry.api import build_wheel; print(build_wheel({str(folder)!r}))"
    name = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()[-1]
    zipfile.ZipFile(folder / name).extractall(folder / "site")
    return folder / "site"


def fl_dp(site: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "fl_dp.cli.main", *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=False,
        timeout=250,
    )


def test_it_brings_the_configs_and_the_template(site: Path) -> None:
    shipped = {path.name for path in (ROOT / "configs").glob("*.toml")}
    assert {path.name for path in (site / "fl_dp" / "configs").iterdir()} == shipped
    template = {path.name for path in (ROOT / "fl_dp" / "cli" / "new_folder").iterdir()}
    assert {path.name for path in (site / "fl_dp" / "cli" / "new_folder").iterdir()} == template
    assert {path.name for path in site.iterdir()} == {"fl_dp", "fl_dp-0.1.0.dist-info"}


def test_a_new_folder_trains_and_its_model_can_be_used(site: Path, tmp_path: Path) -> None:
    assert fl_dp(site, tmp_path, "new", "mine").returncode == 0
    run = ["run", "--config", "mine/run.toml", "--simulate", "--out", "run", "--set", "rounds=2"]
    trained = fl_dp(site, tmp_path, *run)
    assert trained.returncode == 0, trained.stderr
    exported = fl_dp(site, tmp_path, "export", "run", "--to", "safetensors")
    assert exported.returncode == 0, exported.stderr
    assert (tmp_path / "run" / "export" / "card.json").exists()


def test_processes_of_their_own_start_without_a_checkout(site: Path, tmp_path: Path) -> None:
    trained = fl_dp(site, tmp_path, "run", "--out", "run", "2", "2", "2", "1")
    assert trained.returncode == 0, trained.stderr
    assert "round 1/1" in trained.stdout
