"""Tensors inside tuples, lists, mappings and dataclasses, as models take and return them."""

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torch import Tensor


def tensors(structure: Any, path: str = "") -> Iterator[tuple[str, Tensor]]:
    """Every tensor in `structure` with its path ("[0].logits"), in order.

    Tensors inside other objects are not found.
    """
    if isinstance(structure, Tensor):
        yield path, structure
    for step, child in children(structure):
        yield from tensors(child, path + step)


def map_tensors(change: Callable[[Tensor], Tensor], structure: Any) -> Any:
    """A copy of `structure` with `change` applied to every tensor; everything else is passed on unchanged.

    A tensor in several places is changed once, and its places share the result: PyTorch recognises
    self-attention by `query is key`.
    """
    return _mapped(change, structure, {})


def _mapped(
    change: Callable[[Tensor], Tensor], structure: Any, done: dict[int, tuple[Tensor, Tensor]]
) -> Any:
    if isinstance(structure, Tensor):
        if id(structure) not in done:  # kept with its result: another one must not get its identity
            done[id(structure)] = structure, change(structure)
        return done[id(structure)][1]
    before = [child for _, child in children(structure)]
    after = [_mapped(change, child, done) for child in before]
    unchanged = all(new is old for new, old in zip(after, before, strict=True))
    return structure if unchanged else rebuilt(structure, after)


def children(structure: Any) -> list[tuple[str, Any]]:
    """The direct children of `structure`, each with its step of the path; nothing if it is no container."""
    if isinstance(structure, Mapping):
        return [(f"[{key!r}]", child) for key, child in structure.items()]
    if isinstance(structure, tuple) and hasattr(structure, "_fields"):
        return [(f".{name}", child) for name, child in zip(structure._fields, structure, strict=True)]
    if isinstance(structure, tuple | list):
        return [(f"[{i}]", child) for i, child in enumerate(structure)]
    if _is_dataclass(structure):
        names = [field.name for field in dataclasses.fields(structure)]
        return [(f".{name}", getattr(structure, name, None)) for name in names]  # a field may not be set
    return []


def rebuilt(structure: Any, parts: list[Any]) -> Any:
    """`structure` with other parts, of the same type: a BatchEncoding keeps its methods."""
    if isinstance(structure, Mapping):
        rebuilt = copy.copy(structure) if hasattr(structure, "__setitem__") else dict(structure)
        for key, child in zip(structure, parts, strict=True):
            rebuilt[key] = child
        return rebuilt
    if isinstance(structure, tuple):
        return type(structure)(*parts) if hasattr(structure, "_fields") else tuple(parts)
    if isinstance(structure, list):
        return parts
    rebuilt = copy.copy(structure)  # a dataclass
    for field, child in zip(dataclasses.fields(structure), parts, strict=True):
        object.__setattr__(rebuilt, field.name, child)  # frozen ones too
    return rebuilt


def _is_dataclass(structure: Any) -> bool:
    return dataclasses.is_dataclass(structure) and not isinstance(structure, type)
