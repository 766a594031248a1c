"""The device setting as a torch device."""

import torch

from fl_dp.config.flat import AUTO
from fl_dp.errors import ConfigError


def find_device(name: str) -> torch.device:
    """The device of that name; "auto": a GPU if there is one. ConfigError if it is missing."""
    if "," in name:
        raise ConfigError(
            f"device = {name!r}: the server evaluates on one device, such as {name.split(',')[0].strip()!r}; "
            "a list of GPUs is for clients, in their own settings."
        )
    if name == AUTO:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError):  # torch built without CUDA asserts
        raise ConfigError(
            f"device = {name!r}: not found on this machine; 'auto' uses a GPU if there is one."
        ) from None
    return device


def find_devices(names: str) -> list[torch.device]:
    """One device, or several alike, separated by commas. ConfigError if one is missing, or they differ."""
    devices = [find_device(name.strip()) for name in names.split(",")]
    if len(devices) > 1:
        numbered = all(one.type == "cuda" and one.index is not None for one in devices)
        if len(set(devices)) < len(devices) or not numbered:
            raise ConfigError(f"device = {names!r}: expected different GPUs with numbers: cuda:0,cuda:1.")
        kinds = sorted({torch.cuda.get_device_name(one) for one in devices})
        if len(kinds) > 1:
            raise ConfigError(
                f"device = {names!r}: {' and '.join(kinds)} may round differently. One more record would "
                "move others to another device and change their gradients. Use devices of one kind."
            )
    return devices


def card(device: torch.device) -> str:
    """The device, and which card it is: after a change of the machine its number may mean another card."""
    return f"{device} {torch.cuda.get_device_properties(device)}" if device.type == "cuda" else str(device)
