"""Which weights: the one digest that summaries, statements of sites, cards and `verify` compare."""

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor


def weights_digest(weights: "Mapping[str, np.ndarray[Any, Any] | Tensor]") -> str:
    """SHA-256 over names, types, shapes and values, in hex; the same of an array and of its tensor."""
    found = hashlib.sha256()
    for name, values in sorted(weights.items()):
        kind, shape, content = _parts(values)
        found.update(f"{name} torch.{kind} {shape}\n".encode())
        found.update(content)
    return found.hexdigest()


def _parts(values: Any) -> tuple[str, tuple[int, ...], bytes]:
    if isinstance(values, np.ndarray):
        return str(values.dtype), values.shape, np.ascontiguousarray(values).tobytes()
    import torch

    content = values.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return str(values.dtype).removeprefix("torch."), tuple(values.shape), content
