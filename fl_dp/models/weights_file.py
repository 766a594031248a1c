"""Tensors out of a file that nobody vouches for, as data and never as code."""

import io
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fl_dp.errors import ConfigError


def load_saved(source: Path | bytes, name: str) -> Any:
    """What `torch.save` has written: tensors, numbers and texts, on the CPU. name: what errors call it.

    ConfigError for anything else: code, damage, and tensors that claim to be larger than what is there.
    """
    try:
        file = io.BytesIO(source) if isinstance(source, bytes) else source
        found = torch.load(file, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise ConfigError(f"{name}: no such file.") from None
    except Exception as error:  # of a dozen kinds, over a file that is something else, or was changed
        raise ConfigError(f"{name}: cannot be read as weights ({type(error).__name__}).") from None
    _check_sizes(found, name)
    return found


def load_weights(path: Path, name: str = "") -> dict[str, Tensor]:
    """The state dict in a file; ConfigError where there is none. name: what errors call it, else the path."""
    name = name or str(path)
    found = load_saved(path, name)
    if not isinstance(found, dict) or not all(
        isinstance(key, str) and isinstance(one, Tensor) for key, one in found.items()
    ):
        raise ConfigError(f"{name}: holds no state dict, tensors by name.")
    return found


def _check_sizes(found: Any, name: str) -> None:
    """A tensor of a few bytes may repeat them a billion times: what is done with it takes all of that."""
    if isinstance(found, Tensor):
        fits = found.layout == torch.strided and found.nbytes <= max(found.untyped_storage().nbytes(), 1)
        if not fits:
            raise ConfigError(f"{name}: holds a tensor that claims to be larger than what is there.")
    elif isinstance(found, dict | list | tuple):
        for one in found.values() if isinstance(found, dict) else found:
            _check_sizes(one, name)
