"""The rows of a batch, in whatever containers a collator puts them.

Tensors have one row for each record, and so do lists of plain values, such as names. A plain value elsewhere
is the same for all records.
"""

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from fl_dp.engine.tracing.structure import children, rebuilt
from fl_dp.errors import ConfigError

_PLAIN = (str, bytes, bool, int, float, type(None))


def rows_of(batch: Any, part: slice) -> Any:
    """The same batch with these rows alone. Raises ConfigError for what has no rows that can be seen."""
    if _has_rows(batch):
        found = batch[part]
        return found.clone() if isinstance(found, Tensor) and not len(found) else found  # holds no memory
    below = [rows_of(child, part) for _, child in children(batch)]
    return rebuilt(batch, below) if below else batch


def num_rows(batch: Any) -> int:
    """How many rows all of it has. ConfigError if its parts differ, or none has rows."""
    (first, size), *others = list(_sizes(batch, "")) or [("", 0)]
    for path, other in others:
        if other != size:
            raise ConfigError(
                f"The batch has {size} rows at {first} and {other} at {path}, but each record has one row of "
                "each tensor. Let losses_of supply what belongs to no record."
            )
    return size


def _sizes(batch: Any, path: str) -> Iterator[tuple[str, int]]:
    if _has_rows(batch):
        yield path, len(batch)
        return
    for step, child in children(batch):
        yield from _sizes(child, path + step)


def _has_rows(batch: Any) -> bool:
    """Whether it can be cut; False for a container, whose parts may be, and for a plain value."""
    if isinstance(batch, Tensor) and batch.dim():
        return True
    below = children(batch)
    if isinstance(batch, list | tuple) and all(isinstance(child, _PLAIN) for _, child in below):
        return True
    if not (below or isinstance(batch, _PLAIN)):
        what = "a tensor without rows" if isinstance(batch, Tensor) else type(batch).__name__
        raise ConfigError(
            f"The batch holds {what}, which cannot be cut into passes: let the collator return tensors with "
            "a row for each record, in tuples, lists or dicts."
        )
    return False
