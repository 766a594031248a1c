"""The device setting: what is there, or an error that says what to write."""

import pytest
import torch

from fl_dp.errors import ConfigError
from fl_dp.federation import devices
from fl_dp.federation.devices import find_device, find_devices


@pytest.mark.parametrize(("there", "device"), [(True, "cuda"), (False, "cpu")])
def test_auto_is_a_gpu_where_there_is_one(monkeypatch, there, device):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    assert find_device("auto") == torch.device(device)


def test_a_device_by_its_name_and_none_that_is_not_there():
    assert find_device("cpu") == torch.device("cpu")
    for name in ("tpu", "cpu:x", ""):
        with pytest.raises(ConfigError, match="not found on this machine"):
            find_device(name)


def test_several_devices_must_be_there_once_and_of_one_kind(monkeypatch):
    monkeypatch.setattr(devices, "find_device", torch.device)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "A" if device.index < 2 else "B")
    assert find_devices("cuda:0, cuda:1") == [torch.device("cuda:0"), torch.device("cuda:1")]
    assert find_devices("cpu") == [torch.device("cpu")]
    for names in ("cuda:0,cuda:0", "cuda,cuda:1", "cpu,cpu", "cpu:0,cpu:1"):
        with pytest.raises(ConfigError, match="different GPUs with numbers"):
            find_devices(names)
    with pytest.raises(ConfigError, match="A and B may round differently"):
        find_devices("cuda:1,cuda:2")


def test_a_list_is_for_clients():
    with pytest.raises(ConfigError, match="the server evaluates on one device, such as 'cuda:0'; a list"):
        find_device("cuda:0,cuda:1")
