"""The digest of a model's weights that summaries, statements of sites, cards and `verify` compare."""

import hashlib
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor


def weights_digest(weights: Mapping[str, np.ndarray[Any, Any] | Tensor]) -> str:
    """SHA-256 over names, types, shapes and values, in hex; the same for an array and for its tensor.

    A tied tensor counts once, under its first name, as in messages. So the digest does not show which tensor
    a second name is tied to; see `ties_left_open`.
    """
    found = hashlib.sha256()
    tied = _second_names(weights)
    for name, values in sorted((name, one) for name, one in weights.items() if name not in tied):
        kind, shape, content = _parts(values)
        shown = name.replace("\\", "\\\\").replace("\n", "\\n")  # else a name could imitate another array
        found.update(f"{shown} torch.{kind} {shape}\n".encode())
        found.update(content)
    return found.hexdigest()


def ties_left_open(weights: Mapping[str, Tensor]) -> dict[str, str]:
    """The first name of each tied tensor, by its second name, if the digest does not prove the tie.

    That is, if another tensor has the same type and shape: tied to that one, the digest would be the same.
    """
    tied = _second_names(weights)
    forms = Counter(_form(one) for name, one in weights.items() if name not in tied)
    return {name: first for name, first in tied.items() if forms[_form(weights[name])] > 1}


def _second_names(weights: Mapping[str, Any]) -> dict[str, str]:
    """The first name of each tied tensor, by its second name. Tied: the same tensor in memory."""
    first: dict[Any, str] = {}
    found = {}
    for name, values in weights.items():
        place = None if isinstance(values, np.ndarray) else _place(values)
        if place is not None and first.setdefault(place, name) != name:
            found[name] = first[place]
    return found


def _place(tensor: Any) -> Any:
    """The tensor's place in memory; None for an empty tensor. A negated or conjugated view differs."""
    signs = tensor.is_neg(), tensor.is_conj()
    return (tensor.data_ptr(), tensor.stride(), *signs, *_form(tensor)) if tensor.numel() else None


def _form(tensor: Any) -> tuple[Any, ...]:
    return tensor.dtype, *tensor.shape


def _parts(values: Any) -> tuple[str, tuple[int, ...], bytes]:
    if isinstance(values, np.ndarray):
        return str(values.dtype), values.shape, np.ascontiguousarray(values).tobytes()
    resolved = values.detach().cpu().resolve_conj().resolve_neg()
    content = resolved.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return str(values.dtype).removeprefix("torch."), tuple(values.shape), content
