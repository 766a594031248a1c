import io
import zipfile
from pathlib import Path

import pytest

from fl_dp.errors import LaunchError
from fl_dp.launch.flower.app_bundle import build_bundle


@pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")  # Flower's own
def test_the_bundle_holds_the_entry_points_and_nothing_of_fl_dp() -> None:
    names = set(zipfile.ZipFile(io.BytesIO(build_bundle())).namelist())
    assert names == {"pyproject.toml", "server.py", "client.py", ".info/CONTENT"}


def test_outside_a_checkout_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match=r"pyproject\.toml: not found; .* a checkout"):
        build_bundle(tmp_path)
