import importlib
from collections.abc import Iterator

import flwr
import pytest
from flwr.supernode.runtime import run_clientapp as flower

from fl_dp.errors import LaunchError
from fl_dp.federation.client.app import app
from fl_dp.launch.flower.local_clientapp import use_local_app


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    yield
    importlib.reload(flower)


def test_the_app_is_ours_whatever_the_bundle_says() -> None:
    use_local_app()
    load = flower.get_load_client_app_fn(default_app_ref="", app_path=None, multi_app=True)
    assert load("evil/evil", "6.6.6", "0" * 64) is app


def test_nothing_from_the_bundle_is_unpacked_or_installed() -> None:
    use_local_app()
    assert flower.install_from_fab(b"not even a zip file", skip_prompt=True) is None
    assert flower.install_app_dependencies("anywhere", launch_id="x") is None


def test_an_unchecked_flower_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flwr, "__version__", "1.42.0")
    with pytest.raises(LaunchError, match=r"flwr 1\.42\.0.*1\.41\.0; install that version"):
        use_local_app()


@pytest.mark.parametrize("name", ["install_from_fab", "install_app_dependencies", "get_load_client_app_fn"])
def test_a_flower_without_the_names_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(flower, name)
    with pytest.raises(LaunchError, match="install that version"):
        use_local_app()
