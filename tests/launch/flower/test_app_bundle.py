import io
import tomllib
import zipfile

import pytest

from fl_dp.config.run import RunConfig
from fl_dp.launch.flower.app_bundle import build_bundle, bundle_files


@pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")  # Flower's own
def test_the_bundle_holds_the_entry_points_and_nothing_of_fl_dp() -> None:
    names = set(zipfile.ZipFile(io.BytesIO(build_bundle())).namelist())
    assert names == {"pyproject.toml", "server.py", "client.py", ".info/CONTENT"}


def test_it_knows_every_key_and_asks_for_no_installation() -> None:
    project = tomllib.loads(bundle_files()["pyproject.toml"].decode())
    assert project["tool"]["flwr"]["app"]["config"] == RunConfig().to_flat()
    assert project["project"]["dependencies"] == []


@pytest.mark.parametrize("side", ["server", "client"])
def test_its_entry_points_are_those_of_the_installed_package(side: str) -> None:
    space: dict[str, object] = {}
    exec(bundle_files()[f"{side}.py"].decode(), space)
    assert type(space["app"]).__name__ == f"{side.capitalize()}App"
