"""Sets Intel MKL's strict reproducibility mode, so that a row's product does not depend on its place.

MKL may sum a row's products in an order that depends on the row's place in the batch, or on the alignment of
its memory (seen: 4 results for one row of 785 numbers, in different places). With weights for which all
logits are rounding errors, one more record would then change the gradients of all others. In the strict mode
of conditional numerical reproducibility a row's result is the same in every place;
`tests/engine/test_steady_rows.py` tests this.

MKL reads the mode once, at its first computation. It has no effect if PyTorch has computed before fl_dp was
imported, or if PyTorch was built without MKL (ARM, macOS).
"""

import os
import platform
from pathlib import Path

MODE = "MKL_CBWR"
_CPU = Path("/proc/cpuinfo")
_HEAD = 16_384  # bytes of it that are read; they cover the first processor


def set_mode() -> None:
    """Ask MKL for the mode, unless the user has chosen one."""
    os.environ.setdefault(MODE, _mode())


def machine() -> str:
    """What the bits of a row depend on, besides PyTorch's version: the mode and the processor's name."""
    head = _head_of_cpu() or platform.processor()
    name = next((line for line in head.splitlines() if line.startswith("model name")), head)
    return f"{os.environ.get(MODE, '')} {platform.machine()} {name}"


def _mode() -> str:
    """The fastest strict mode: AVX-512 on Intel processors that have it, else AVX2."""
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
