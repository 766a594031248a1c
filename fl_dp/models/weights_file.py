"""Tensors from an untrusted file, read as data and never as code."""

import io
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fl_dp.errors import ConfigError


def load_saved(source: Path | bytes, name: str) -> Any:
    """Tensors, numbers and texts that `torch.save` has written, on the CPU. name: for errors.

    ConfigError for anything else: code, damage, and tensors that claim to be larger than their data.
    """
    try:
        file = io.BytesIO(source) if isinstance(source, bytes) else source
        found = torch.load(file, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise ConfigError(f"{name}: no such file.") from None
    except Exception as error:  # of a dozen kinds, for a file that is something else, or was changed
        raise ConfigError(f"{name}: cannot be read as weights ({type(error).__name__}).") from None
    _check_sizes(found, name)
    return found


def load_weights(path: Path, name: str = "") -> dict[str, Tensor]:
    """The state dict in a file; ConfigError if there is none. name: for errors, else the path."""
    name = name or str(path)
    found = load_saved(path, name)
    if not isinstance(found, dict) or not all(
        isinstance(key, str) and isinstance(one, Tensor) for key, one in found.items()
    ):
        raise ConfigError(f"{name}: holds no state dict, which has tensors by name.")
    return found


def _check_sizes(found: Any, name: str) -> None:
    """Raise ConfigError for a tensor larger than its storage: it may repeat a few bytes a billion times."""
    if isinstance(found, Tensor):
        fits = found.layout == torch.strided and found.nbytes <= max(found.untyped_storage().nbytes(), 1)
        if not fits:
            raise ConfigError(f"{name}: holds a tensor that claims to be larger than its data.")
    elif isinstance(found, dict | list | tuple):
        for one in found.values() if isinstance(found, dict) else found:
            _check_sizes(one, name)
