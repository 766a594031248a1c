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

    @property
    def ghost(self) -> bool:
        return is_ghost(self.kernel)


def is_ghost(kernel: str) -> bool:
    """Whether a kernel works without holding a per-example gradient."""
    return kernel.startswith("ghost")


@dataclass(frozen=True, slots=True)
class _Column:
    title: str
    cell: Callable[[KernelRow], str]
    right: bool = False


_COLUMNS = (
    _Column("parameter", lambda row: row.parameter),
    _Column("layout", lambda row: row.layout),
    _Column("T", lambda row: str(row.T), right=True),
    _Column("p", lambda row: str(row.p), right=True),
    _Column("d", lambda row: str(row.d), right=True),
    _Column("norm", lambda row: "ghost" if row.ghost else "instantiated"),
    _Column("kernel", lambda row: row.kernel),
    _Column("decided", lambda row: row.decided),
    _Column("ms", lambda row: _milliseconds(row, row.kernel), right=True),
    _Column("next best", lambda row: _next_best(row) or _MISSING),
    _Column("ms", lambda row: _milliseconds(row, _next_best(row)), right=True),
    _Column("KiB kept", lambda row: f"{row.kept_bytes / 2**10:.1f}", right=True),
)


def kernel_table(rows: Iterable[KernelRow]) -> str:
    """Aligned plain text: a line of titles, then one line for each parameter."""
    rows = list(rows)
    columns = [[column.title, *map(column.cell, rows)] for column in _COLUMNS]
    aligned = [_aligned(cells, column.right) for cells, column in zip(columns, _COLUMNS, strict=True)]
    return "\n".join("  ".join(line).rstrip() for line in zip(*aligned, strict=True))


def _aligned(cells: list[str], right: bool) -> list[str]:
    width = max(map(len, cells))
    return [cell.rjust(width) if right else cell.ljust(width) for cell in cells]


def _next_best(row: KernelRow) -> str | None:
    """The fastest of the kernels that were tried but not chosen."""
    others = [kernel for kernel in row.seconds or {} if kernel != row.kernel]
    return min(others, key=lambda kernel: (row.seconds or {})[kernel], default=None)


def _milliseconds(row: KernelRow, kernel: str | None) -> str:
    if row.seconds is None or kernel is None:
        return _MISSING
    return f"{row.seconds[kernel] * 1e3:.2f}"
