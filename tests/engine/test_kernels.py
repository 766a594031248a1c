"""Every Triton kernel becomes machine code for four generations of GPUs, without one, and spills nothing."""

import importlib
import os
import pkgutil
import re
import subprocess

import pytest

import fl_dp.engine

triton = pytest.importorskip("triton")

from triton.backends.compiler import GPUTarget  # noqa: E402  # only where there is Triton
from triton.compiler import ASTSource  # noqa: E402

# A100, H100, B200, RTX 50. Triton compiles anew where numbers and pointers are multiples of 16 and rows are
# dense (`True`), as they mostly are: every second generation is tried so.
GENERATIONS = [(80, False), (90, True), (100, False), (120, True)]
MOST_SHARED = 99 * 1024  # bytes that a program may have on the smallest cards of these generations
# Of each argument: a pointer to numbers of that type, a number, or the value that is compiled in.
KERNELS = {
    "keystream": "out=*i32 key=*i32 start=*i64 number=i32 num_blocks=i32 lanes=256",
    "derived_key": "out=*i32 key=*i32 digest=*i32 lanes=32",
    "count_open": "bits=*i16 first=*i16 counts=*i32 num=i32 lanes=256",
    "look_up": (
        "bits=*i16 further=*i64 key=*i32 first=*i16 below=*i32 high=*i64 low=*i64 offsets=*i64 used=*i64 "
        "out=*i16 num=i32 room=i32 thresholds=i32 least=i32 steps=11 lanes=256"
    ),
    "fold": "values=*i64 out=*i64 power=*i64 num=i32 groups=i32 padding=i32 message=1 size=64 lanes=256",
    "tag": "out=*i64 value=*i64 power=*i64 pad=*i64 lanes=32",
    "_tile_sums": (
        "left=*{type} right=*{type} sums=*fp32 num_positions=i32 p=i32 d=i32 tiles=i32 left_n=i32 left_t=i32 "
        "left_c=i32 right_n=i32 right_t=i32 right_c=i32 side=64 block=32"
    ),
}
TYPES = ["fp32", "bf16", "fp16"]
CASES = [
    (name, kind) for name, signature in KERNELS.items() for kind in (TYPES if "{type}" in signature else [""])
]


def _kernels():
    """All functions of the engine that Triton compiles and that others do not call, by name."""
    found = {}
    for module in pkgutil.walk_packages(fl_dp.engine.__path__, "fl_dp.engine."):
        members = vars(importlib.import_module(module.name))
        found |= {name: one for name, one in members.items() if isinstance(one, triton.runtime.JITFunction)}
    return {name: one for name, one in found.items() if name in KERNELS or not _is_part(one)}


def _is_part(function):
    """Whether a kernel calls it: it returns something, which a kernel cannot."""
    return re.search(r"^    return\b", function.src, re.MULTILINE) is not None


def _spilled(ptx):
    """What the assembler says of it: bytes of registers that had to go to memory."""
    arch = re.search(r"\.target (sm_\w+)", ptx).group(1)
    folder = os.path.join(os.path.dirname(triton.__file__), "backends", "nvidia", "bin")
    newest = os.path.join(folder, "ptxas-blackwell")
    program = newest if os.path.exists(newest) else os.path.join(folder, "ptxas")
    command = [program, "-v", f"-arch={arch}", "-o", os.devnull, "-"]
    done = subprocess.run(command, input=ptx, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [int(found) for found in re.findall(r"(\d+) bytes spill", done.stderr)]


def test_every_kernel_is_compiled_here():
    assert _kernels().keys() == KERNELS.keys()


@pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")
@pytest.mark.parametrize(("generation", "even"), GENERATIONS)
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_a_kernel_compiles_without_spilling(name, kind, generation, even):
    arguments = dict(one.split("=") for one in KERNELS[name].format(type=kind).split())
    fixed = {name: int(value) for name, value in arguments.items() if value.isdigit()}
    fixed |= dict.fromkeys({"left_c", "right_c"} & arguments.keys(), 1) if even else {}
    signature = {name: "constexpr" if name in fixed else value for name, value in arguments.items()}
    by_16 = {
        (at,): [["tt.divisibility", 16]] for at, one in enumerate(arguments) if even and one not in fixed
    }
    source = ASTSource(_kernels()[name], signature=signature, constexprs=fixed, attrs=by_16)
    options = {"num_warps": 8} if name == "_tile_sums" else {}
    made = triton.compile(source, target=GPUTarget("cuda", generation, 32), options=options)
    assert made.asm["cubin"]
    spilled = _spilled(made.asm["ptx"])
    assert len(spilled) == 2  # stores and loads
    assert sum(spilled) == 0
    assert made.metadata.shared <= MOST_SHARED
