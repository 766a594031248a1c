"""The chosen kernels, as a readable table."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

_MISSING = "-"


@dataclass(frozen=True, slots=True)
class KernelRow:
    """The kernel of one parameter, and why it was chosen.

    layout: the kind of gradient layout. T: positions of an example. p, d: output and input features; the
    parameter has p * d numbers. decided: "measured" if kernels were tried, "formula" if the formula was clear
    or there were too few examples, "fixed" if the user named the kernel.
    seconds: kernel -> seconds of norm and weighted sum for the batch on which it was tried; None unless
    measured. kept_bytes: bytes of one example that are kept from its norm to the weighted sum. kept: the same
    for each kernel in `seconds`; None if all gradients together take so little that it does not matter.
    """

    parameter: str
    layout: str
    T: int
    p: int
    d: int
    kernel: str
    decided: Literal["measured", "formula", "fixed"]
    seconds: Mapping[str, float] | None
    kept_bytes: int
    kept: Mapping[str, int] | None = None


def is_ghost(kernel: str) -> bool:
    """Whether a kernel works without holding a per-example gradient."""
    return kernel.startswith("ghost")


_COLUMNS: tuple[tuple[str, Callable[[str, int], str], Callable[[KernelRow], str]], ...] = (
    ("parameter", str.ljust, lambda row: row.parameter),
    ("layout", str.ljust, lambda row: row.layout),
    ("T", str.rjust, lambda row: str(row.T)),
    ("p", str.rjust, lambda row: str(row.p)),
    ("d", str.rjust, lambda row: str(row.d)),
    ("norm", str.ljust, lambda row: "ghost" if is_ghost(row.kernel) else "instantiated"),
    ("kernel", str.ljust, lambda row: row.kernel),
    ("decided", str.ljust, lambda row: row.decided),
    ("ms", str.rjust, lambda row: _milliseconds(row, row.kernel)),
    ("next best", str.ljust, lambda row: _next_best(row) or _MISSING),
    ("ms", str.rjust, lambda row: _milliseconds(row, _next_best(row))),
    ("KiB kept", str.rjust, lambda row: f"{row.kept_bytes / 2**10:.1f}"),
)


def kernel_table(rows: Iterable[KernelRow]) -> str:
    """Aligned plain text: a line of titles, then one line for each parameter."""
    rows, columns = list(rows), []
    for title, aligned, cell in _COLUMNS:
        cells = [title, *map(cell, rows)]
        width = max(map(len, cells))
        columns.append([aligned(one, width) for one in cells])
    return "\n".join("  ".join(line).rstrip() for line in zip(*columns, strict=True))


def _next_best(row: KernelRow) -> str | None:
    """The fastest of the kernels that were tried but not chosen."""
    others = [kernel for kernel in row.seconds or {} if kernel != row.kernel]
    return min(others, key=lambda kernel: (row.seconds or {})[kernel], default=None)


def _milliseconds(row: KernelRow, kernel: str | None) -> str:
    if row.seconds is None or kernel is None:
        return _MISSING
    return f"{row.seconds[kernel] * 1e3:.2f}"
