"""Measure one engine on one model, in this process, and print what was seen as one line of JSON.

benchmarks/engine.py starts it; a process of its own, so that no engine inherits another's memory.
"""

import argparse
import copy
import ctypes
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks.models import MODELS, Spec
from benchmarks.steps import ENGINES, Step, Task
from fl_dp.errors import FlDpError

LEAST_STEPS, MOST_STEPS, ENOUGH_SECONDS = 3, 50, 2.0
REFUSALS = (FlDpError, NotImplementedError)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("batch", type=int)
    parser.add_argument("device")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    spec = MODELS[arguments.model]
    try:
        seen = measure(spec, ENGINES[arguments.engine], arguments.batch, arguments.device)
    except Exception as error:  # whatever an engine does wrong is a result, told with its reason
        word = "refused" if isinstance(error, REFUSALS) else "failed"
        seen = {"status": word, "reason": f"{type(error).__name__}: {error}"}
    json.dump(seen, sys.stdout)


def measure(spec: Spec, engine: Callable[[Task], Step], batch: int, device: str) -> dict[str, object]:
    """Seconds of the first and of the median further step, and the peak bytes of both, over what was in
    use before the first.

    The first step includes the engine's setting up; what an engine imports is loaded before.
    """
    model = spec.build().to(device)
    task = Task(model, *spec.batch_of(batch, device))
    _load_code(task, engine)
    before = _start_of_peak(device)
    start = time.perf_counter()
    step = engine(task)
    step()
    _wait(device)
    first = time.perf_counter() - start
    first_peak = _peak(device)
    _start_of_peak(device)
    further = _further_steps(step, device)
    further_peak = _peak(device)
    return {
        "status": "ok",
        "first_seconds": first,
        "step_seconds": statistics.median(further),
        "steps": len(further),
        "peak_bytes": max(first_peak, further_peak) - before,
        "further_peak_bytes": further_peak - before,
    }


def _load_code(task: Task, engine: Callable[[Task], Step]) -> None:
    """One whole step with one example on a copy: modules and operators that are loaded on first use
    (150 MB and 1 s for the first optimizer alone) are not what is compared."""
    engine(Task(copy.deepcopy(task.model), task.inputs[:1], task.targets[:1]))()


def _further_steps(step: Step, device: str) -> list[float]:
    seconds: list[float] = []
    while len(seconds) < LEAST_STEPS or (sum(seconds) < ENOUGH_SECONDS and len(seconds) < MOST_STEPS):
        start = time.perf_counter()
        step()
        _wait(device)
        seconds.append(time.perf_counter() - start)
    return seconds


def _wait(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def _start_of_peak(device: str) -> int:
    """Bytes in use now; the peak is counted from here."""
    gc.collect()
    if device.startswith("cuda"):
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated()
    ctypes.CDLL(None).malloc_trim(0)  # what is free goes back to the system (glibc)
    Path("/proc/self/clear_refs").write_text("5")  # VmHWM starts again (Linux, proc(5))
    return _resident("VmRSS")


def _peak(device: str) -> int:
    if device.startswith("cuda"):
        return torch.cuda.max_memory_allocated()
    return _resident("VmHWM")


def _resident(field: str) -> int:
    """A size from /proc/self/status, in bytes: VmRSS is the resident set, VmHWM its peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


if __name__ == "__main__":
    main()
