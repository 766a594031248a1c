from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from fl_dp.config import RunConfig
from fl_dp.errors import ConfigError, DataError
from fl_dp.launch.arguments import Request
from fl_dp.launch.preflight import check_server, fit_batches, with_absolute_paths


def test_digits_and_linear_pass() -> None:
    check_server(RunConfig())


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (RunConfig(data="digit"), "data = 'digit': unknown data set; expected digits, mnist"),
        (RunConfig(model="liner"), "model = 'liner': unknown model"),
        (RunConfig(model="torchvision:vgg11"), r"model = 'torchvision:vgg11'.*\(1, 8, 8\)"),
    ],
)
def test_a_setting_at_fault_is_named(config: RunConfig, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        check_server(config)


def test_a_missing_file_is_the_datas_fault(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"absent\.npz"):
        check_server(RunConfig(data=f"npz:{tmp_path / 'absent.npz'}"))


def request(given: Collection[str] = (), **values: Any) -> Request:
    return Request(RunConfig(min_clients=1, fit_clients=1, **values), frozenset(given), ())


def test_a_batch_of_the_config_file_is_lowered_to_the_smallest_part_and_that_is_said() -> None:
    fitting = fit_batches(request(clients=50))
    records = 28  # 1437 training digits, cut in 50
    assert (fitting.config.expected_batch_size, fitting.config.physical_batch_size) == (records, records)
    assert fitting.notes == (
        f"expected-batch-size = {records} (the config file says 64; a part has {records})",
    )


def test_it_stays_a_multiple_of_the_users_physical_batch() -> None:
    fitting = fit_batches(request({"physical-batch-size"}, clients=50, physical_batch_size=16))
    assert (fitting.config.expected_batch_size, fitting.config.physical_batch_size) == (16, 16)


@pytest.mark.parametrize("given", ["expected-batch-size", "physical-batch-size"])
def test_a_batch_that_the_user_gave_is_refused(given: str) -> None:
    with pytest.raises(
        ConfigError, match=r"VBATCHSIZE \(expected-batch-size\) = 64: more than the 28 records"
    ):
        fit_batches(request({given}, clients=50))


def test_a_batch_that_fits_is_left_alone() -> None:
    fits = request(clients=2)
    assert fit_batches(fits) is fits


def test_paths_mean_the_same_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = with_absolute_paths(RunConfig(data="npz:x.npz", data_root="~/sets"))
    assert config.data == f"npz:{tmp_path / 'x.npz'}"
    assert config.data_root == str(Path("~/sets").expanduser())
    assert with_absolute_paths(RunConfig()).data == "digits"
