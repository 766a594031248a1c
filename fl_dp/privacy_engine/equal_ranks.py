"""What must be equal on all ranks, so that it does not matter which rank clips a record.

One record more or less moves later records to other passes, and so to other ranks. If a rank had other
weights or other kernels, these records' contributions would change as well, and one record would move the sum
by more than C. So ranks compare all that their gradients depend on: everything at the start, and before each
step what may have changed since. Two things are too costly to compare, and left to the user: that record i is
the same record on all ranks, and that the machines have the same processors.
"""

import hashlib
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fl_dp.engine.precision import precisions
from fl_dp.engine.tracing.structure import children
from fl_dp.weights_digest import weights_digest

DIGEST_WORDS = 2  # of 64 bits
RANDOM = "random"
_COMPARED = 16  # records

Facts = Mapping[str, object]


def facts_of_start(
    settings: Facts,
    module: nn.Module,
    parameters: Mapping[str, Tensor],
    optimizer: torch.optim.Optimizer,
    sampler: Facts,
) -> dict[str, object]:
    """All that must be equal before the first step. settings: the engine's; sampler: the sampler's state."""
    device = next(iter(parameters.values())).device
    return {
        "the engine's settings": settings,
        "the sampler": sampler,
        "the parameters": [(name, tuple(one.shape), one.dtype) for name, one in parameters.items()],
        "the weights": weights_digest(dict(_tensors(module))),
        "the optimizer": _optimizer(optimizer, parameters),
        "torch and the device": _machine(device),
    }


def facts_of_step(
    module: nn.Module, parameters: Mapping[str, Tensor], optimizer: torch.optim.Optimizer, draw: Tensor
) -> dict[str, object]:
    """What may have changed since. draw: the state of the generator of the draws.

    Weights are compared by sums of their bits: that finds what went wrong, not who wants to hide something.
    """
    sums = [_sum_of_bits(one) for _, one in _tensors(module)]
    return {
        "the draw": draw.numpy().tobytes(),
        "the weights": torch.stack(sums).tolist(),
        "the training mode": [part.training for part in module.modules()],
        "the optimizer": _optimizer(optimizer, parameters),
    }


def records_digest(dataset: Any, count: int) -> str:
    """A digest of some of the `count` records; RANDOM if they differ each time, as with augmentations."""
    numbers = sorted({round(i * (count - 1) / _COMPARED) for i in range(_COMPARED + 1)})
    first, second = (_digest_of([dataset[number] for number in numbers]) for _ in range(2))
    return first if first == second else RANDOM


def _digest_of(records: object) -> str:
    found = hashlib.blake2b()

    def add(value: object) -> None:
        if isinstance(value, Tensor):
            value = value.detach().cpu().contiguous().numpy()
        shown = (value.shape, value.dtype, value.tobytes()) if isinstance(value, np.ndarray) else None
        inside = children(value)
        found.update(repr(shown or (type(value).__name__ if inside else value)).encode())
        for _, child in inside:
            add(child)

    add(records)
    return found.hexdigest()


def digest(fact: object) -> list[int]:
    """Of the fact's `repr`, as integers of 64 bits."""
    found = hashlib.blake2b(repr(fact).encode(), digest_size=8 * DIGEST_WORDS).digest()
    return [int.from_bytes(found[at : at + 8], "little", signed=True) for at in range(0, len(found), 8)]


def _tensors(module: nn.Module) -> Iterable[tuple[str, Tensor]]:
    return chain(module.named_parameters(), module.named_buffers())


def _sum_of_bits(tensor: Tensor) -> Tensor:
    """As words of 64 bits, which is fifty times as fast as a sum of bytes, and the last bytes one by one."""
    flat = tensor.detach().resolve_conj().resolve_neg().reshape(-1).view(torch.uint8)
    if flat.storage_offset() % 8:
        flat = flat.clone()
    whole = len(flat) // 8 * 8
    return (flat[:whole].view(torch.int64).sum() + flat[whole:].sum(dtype=torch.int64)).cpu()


def _optimizer(optimizer: torch.optim.Optimizer, parameters: Mapping[str, Tensor]) -> list[object]:
    """The type, and of each group the settings and the names of its parameters."""
    names = {id(one): name for name, one in parameters.items()}
    kind = type(optimizer)
    found: list[object] = [f"{kind.__module__}.{kind.__qualname__}"]
    for group in optimizer.param_groups:
        plain = {name: _plain(value) for name, value in group.items() if name != "params"}
        found.append((sorted(plain.items()), [names.get(id(one)) for one in group["params"]]))
    return found


def _plain(value: Any) -> object:
    """The value, if its `repr` shows all of it and no memory address; else its type."""
    if isinstance(value, Tensor):
        return value.tolist()
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    return value if isinstance(value, bool | int | float | str | None) else type(value).__qualname__


def _machine(device: torch.device) -> list[object]:
    """What may choose between kernels whose last bits differ."""
    on_gpu = device.type == "cuda"
    return [
        torch.__version__,
        device.type,
        torch.cuda.get_device_name(device) if on_gpu else torch.backends.cpu.get_cpu_capability(),
        torch.get_num_threads(),
        torch.get_default_dtype(),
        precisions(),
        torch.backends.cudnn.benchmark,
        torch.version.cuda,
        torch.are_deterministic_algorithms_enabled(),
    ]
