"""What a forward pass leaves behind in the model: data there leave with it, and no noise protects them.

Buffers are compared where the model is called (`harness.call`). This file compares the parameters, also
frozen ones, and whatever else a module holds: tensors, numbers, strings and containers of these.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from fl_dp.engine.tracing.structure import children
from fl_dp.errors import ProbeError

_OF_EVERY_MODULE = frozenset(vars(nn.Module()))  # its parameters, buffers, modules and hooks
_PLAIN = bool | int | float | complex | str | bytes | None

# Path ("layers.0.cache['mean']") -> a copy of the tensor, a plain value, the length of a container.
Held = Mapping[str, Any]


def same_values(one: Tensor, other: Tensor) -> bool:
    """Equal in every entry, NaN in the same places."""
    if one.shape != other.shape or one.dtype != other.dtype or one.layout != other.layout:
        return False
    if one.layout != torch.strided:
        pairs = zip(_dense_parts(one), _dense_parts(other), strict=True)
        return all(same_values(part, of_other) for part, of_other in pairs)
    return torch.equal(one, other) or bool(((one == other) | ((one != one) & (other != other))).all())


def _dense_parts(tensor: Tensor) -> tuple[Tensor, ...]:
    if tensor.layout == torch.sparse_coo:
        tensor = tensor.coalesce()
        return tensor.indices(), tensor.values()
    return (tensor.values(),)


@contextmanager
def parameters_kept(model: nn.Module, replaced: Mapping[str, Tensor]) -> Iterator[Callable[[], None]]:
    """Gives a check that raises ProbeError if a parameter has changed since.

    replaced: by name, the tensors that replace parameters when the model is called. At the end the model's
    own frozen ones are restored, whatever happens.
    """
    met = {name: replaced.get(name, parameter) for name, parameter in model.named_parameters()}
    copies = {name: parameter.detach().clone() for name, parameter in met.items()}

    def changed() -> list[str]:
        return [name for name, one in met.items() if not same_values(one.detach(), copies[name])]

    def check() -> None:
        for name in changed():
            raise ProbeError(
                f"The forward pass writes to parameter {name}, which then holds data that no noise "
                "protects; let it return such values, not keep them (embeddings: without max_norm)."
            )

    try:
        yield check
    finally:
        with torch.no_grad():
            for name in changed():
                if name not in replaced:
                    met[name].data.copy_(copies[name])


def held(model: nn.Module) -> Held:
    """What the modules hold besides parameters, buffers and modules, with copies of the tensors.

    It finds tensors, numbers and strings, also inside lists, mappings, sets and dataclasses. It does not find
    what other objects, closures and globals hold; that shows only if outputs change.
    """
    found: dict[str, Any] = {}
    for name, module in model.named_modules():
        own = {key: value for key, value in vars(module).items() if key not in _OF_EVERY_MODULE}
        for key, value in own.items():
            found.update(_leaves(value, f"{name}.{key}" if name else key, set()))
    return found


def check_held(before: Held, after: Held) -> None:
    """ProbeError if the modules hold different things after a call on other data of the same shapes.

    before: from after the first call, so that things made once from shapes alone may stay, such as a table of
    angles or positions.
    """
    for path in {**before, **after}:
        if path not in before or path not in after or not _same(before[path], after[path]):
            raise ProbeError(
                f"The forward pass writes to attribute {path}, which then holds data, or counts batches, and "
                "no noise protects that; let the model return such values, not keep them."
            )


def _leaves(value: Any, path: str, seen: set[int]) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Tensor):
        yield path, value.detach().clone()
    elif isinstance(value, _PLAIN):
        yield path, value
    elif hasattr(type(value), "__array_interface__"):
        yield path, bytes(value.tobytes())
    elif isinstance(value, Mapping | list | tuple | deque | Set):
        yield path, len(value)
    else:
        yield path, type(value).__qualname__
    if id(value) in seen:
        return
    seen.add(id(value))  # a container may hold itself
    inside = list(value) if isinstance(value, deque) else value
    for step, child in children(inside):
        yield from _leaves(child, path + step, seen)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return same_values(one, other)
    return type(one) is type(other) and (one == other or (one != one and other != other))
