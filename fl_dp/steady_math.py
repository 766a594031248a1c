"""Products whose rows do not depend on where they lie: a mode of Intel's MKL, set before it computes.

MKL may add up a row's products in another order where the row has another place in the batch, or its memory
another alignment (seen: 4 results of one row of 785 numbers, by its place). Under weights that make all
logits rounding errors, that would turn one more record into other gradients for all. In its strict mode of
conditional numerical reproducibility a row's result is the same in every place, as
`tests/engine/test_steady_rows.py` sees.

The mode is read once, when MKL first computes. Whoever has computed with PyTorch before importing fl_dp is
without it; so are builds of PyTorch without MKL (ARM, macOS).
"""

import os
import platform
from pathlib import Path

MODE = "MKL_CBWR"
_CPU = Path("/proc/cpuinfo")
_HEAD = 16_384  # bytes of it: the first processor's


def set_mode() -> None:
    """Ask MKL for the mode, unless the user has chosen one."""
    os.environ.setdefault(MODE, _mode())


def machine() -> str:
    """What a row's bits depend on beside PyTorch's version: the mode, and the processor's name."""
    head = _head_of_cpu() or platform.processor()
    name = next((line for line in head.splitlines() if line.startswith("model name")), head)
    return f"{os.environ.get(MODE, '')} {platform.machine()} {name}"


def _mode() -> str:
    """The fastest that is strict: AVX-512 on processors of Intel that have it, else AVX2."""
    head = _head_of_cpu()
    if head is None:
        return "AUTO,STRICT"
    return "AVX512,STRICT" if "GenuineIntel" in head and "avx512f" in head else "AVX2,STRICT"


def _head_of_cpu() -> str | None:
    try:
        with _CPU.open(encoding="utf-8", errors="replace") as file:
            return file.read(_HEAD)
    except OSError:
        return None
