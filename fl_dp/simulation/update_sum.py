"""The weighted sum of clients' updates, added one after the other."""

from collections.abc import Mapping

import torch
from torch import Tensor

_BLOCK = 2**16  # numbers converted to float64 at a time; they fit the processor's cache


def add(total: dict[str, Tensor], update: Mapping[str, Tensor], weight: float = 1.0) -> None:
    """total += weight * update in float64, whose error is far below the rounding of float32 updates.

    The integers of a secure sum add up in int64, and each client counts once. An empty total is a zero.
    """
    for name, array in update.items():
        whole = array.dtype == torch.int64
        if name not in total:
            kind = torch.int64 if whole else torch.float64
            total[name] = torch.zeros(array.shape, dtype=kind, device=array.device)
        if whole:
            total[name] += array
            continue
        # in blocks, which takes half the time: adding float32 to float64 at once converts one by one
        into, array = total[name].view(-1), array.reshape(-1)
        for start in range(0, len(array), _BLOCK):
            block = array[start : start + _BLOCK].to(torch.float64)
            into[start : start + _BLOCK].add_(block, alpha=weight)
