"""The device setting: what is there, or an error that says what to write."""

import pytest
import torch

from fl_dp.errors import ConfigError
from fl_dp.federation.devices import find_device


@pytest.mark.parametrize(("there", "device"), [(True, "cuda"), (False, "cpu")])
def test_auto_is_a_gpu_where_there_is_one(monkeypatch, there, device):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    assert find_device("auto") == torch.device(device)


def test_a_device_by_its_name_and_none_that_is_not_there():
    assert find_device("cpu") == torch.device("cpu")
    for name in ("tpu", "cpu:x", ""):
        with pytest.raises(ConfigError, match="not found on this machine"):
            find_device(name)
