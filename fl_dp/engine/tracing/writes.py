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

from fl_dp.engine.tracing.known_layers import batch_norms, spectral_norms
from fl_dp.engine.tracing.state import PLAIN, Written, equal, tables_of
from fl_dp.engine.tracing.structure import children
from fl_dp.errors import ProbeError

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
            raise written_to(Written(name, "parameter", lasts=True), model)

    try:
        yield check
    finally:
        with torch.no_grad():
            for name in changed():
                if name not in replaced:
                    met[name].data.copy_(copies[name])


def written_to(change: Written, model: nn.Module) -> ProbeError:
    """The error that names what a forward pass has written, and says what to do."""
    if change.kind == "buffer":
        instead = batch_norms(model) or spectral_norms(model) or "Replace its layer, or write between steps."
        return ProbeError(
            f"The forward pass writes to buffer {change.path}, which then holds data that no noise protects. "
            f"{instead} Or put it in evaluation mode."
        )
    without = " (embeddings: without max_norm)" if change.kind == "parameter" else ""
    return ProbeError(
        f"The forward pass writes to {change.kind} {change.path}, which then holds data, or counts batches, "
        f"and no noise protects that; let the model return such values, not keep them{without}."
    )


def held(model: nn.Module) -> Held:
    """What the modules hold besides parameters, modules and the buffers of the `state_dict`, as copies.

    It finds tensors, numbers and texts, also inside of containers and objects (`tables_of`). It does not find
    what closures, globals and objects with `__slots__` hold; that shows only if outputs change.
    """
    found: dict[str, Any] = {}
    for table in tables_of(model):
        if table.kind in ("attribute", "buffer", "entry") and not isinstance(table.owner, set):
            for key, value in table.own.items():
                if not table.lasts(key):
                    found.update(_leaves(value, table.name(key)))
    return found


def differing(before: Held, after: Held) -> list[str]:
    """Where two moments have other contents.

    before: from after the first call, so that things made once from shapes alone may stay, such as a table of
    angles or positions.
    """
    paths = {**before, **after}
    return [p for p in paths if p not in before or p not in after or not _same(before[p], after[p])]


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """The value at one place; of a container only its length, as its contents have places of their own."""
    if isinstance(value, PLAIN):
        yield path, value
        return
    if isinstance(value, Tensor):
        yield path, value.detach().clone()
    elif hasattr(type(value), "__array_interface__"):
        yield path, bytes(value.tobytes())
    elif isinstance(value, Mapping | list | tuple | deque | Set):
        yield path, len(value)
    else:
        yield path, type(value).__qualname__
    if isinstance(value, tuple) or not hasattr(value, "__dict__"):
        for step, child in () if isinstance(value, dict | list) else children(value):
            yield from _leaves(child, path + step)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return same_values(one, other)
    return equal(one, other)
