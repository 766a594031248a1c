"""The device setting as a torch device."""

from typing import TYPE_CHECKING

from fl_dp.config.flat import AUTO
from fl_dp.errors import ConfigError

if TYPE_CHECKING:
    import torch


def find_device(name: str) -> "torch.device":
    """The device of that name; "auto": a GPU if there is one. ConfigError if it is missing."""
    import torch

    if name == AUTO:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError):  # torch built without CUDA asserts
        raise ConfigError(
            f"device = {name!r}: not found on this machine; 'auto' takes what is there."
        ) from None
    return device
