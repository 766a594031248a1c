"""Which weights: the one digest that summaries, statements of sites, cards and `verify` compare."""

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor


def weights_digest(weights: "Mapping[str, np.ndarray[Any, Any] | Tensor]") -> str:
    """SHA-256 over names, types, shapes and values, in hex; the same of an array and of its tensor.

    A tied tensor counts once, under its first name, as models are sent.
    """
    found = hashlib.sha256()
    for name, values in sorted(_each_once(weights).items()):
        kind, shape, content = _parts(values)
        shown = name.replace("\\", "\\\\").replace("\n", "\\n")  # else a name could hold a whole other array
        found.update(f"{shown} torch.{kind} {shape}\n".encode())
        found.update(content)
    return found.hexdigest()


def _each_once(weights: Mapping[str, Any]) -> dict[str, Any]:
    """Without the second names of tensors in one place of the memory."""
    seen, kept = set(), {}
    for name, values in weights.items():
        place = None if isinstance(values, np.ndarray) else _place(values)
        if place is None or place not in seen:
            kept[name] = values
        seen.add(place)
    return kept


def _place(tensor: Any) -> Any:
    """None for a tensor without values, which has no place."""
    return (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype) if tensor.numel() else None


def _parts(values: Any) -> tuple[str, tuple[int, ...], bytes]:
    if isinstance(values, np.ndarray):
        return str(values.dtype), values.shape, np.ascontiguousarray(values).tobytes()
    import torch

    content = values.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return str(values.dtype).removeprefix("torch."), tuple(values.shape), content
