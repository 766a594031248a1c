"""The device setting: what is there, or an error that says what to write."""

import pytest
import torch

from fl_dp.errors import ConfigError
from fl_dp.federation.devices import find_device


@pytest.mark.parametrize(("there", "device"), [(True, "cuda"), (False, "cpu")])
def test_auto_is_a_gpu_where_there_is_one(monkeypatch, there, device):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    assert find_device("auto") == torch.device(device)


def test_a_device_by_its_name():
    assert find_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize("name", ["tpu", "cpu:x", ""])
def test_a_device_that_is_not_there_is_refused(name):
    with pytest.raises(ConfigError, match="not found on this machine"):
        find_device(name)
