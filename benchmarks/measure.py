"""Measure one engine on one model, inside this process: its first step, then turns of a few.

A process of its own (benchmarks/processes.py starts it), so that no engine inherits another's memory.
"""

import copy
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from benchmarks.memory import peak, start_of_peak
from benchmarks.models import MODELS
from benchmarks.steps import AUTOCAST, ENGINES, Step, Task

TURN_SECONDS, MOST_STEPS = 0.1, 50
# "cpu": of the thread that takes the steps, which other work on the machine disturbs less. Not for GPUs.
CLOCKS = {"wall": time.perf_counter, "cpu": time.thread_time}
_PAGE = 4096  # no step is said to use less memory, so that ratios exist


@dataclass(frozen=True, slots=True)
class Setting:
    """What is measured. dtype: a key of `AUTOCAST`; clock: of `CLOCKS`."""

    model: str
    engine: str
    batch: int
    device: str = "cpu"
    dtype: str = "float32"
    clock: str = "wall"


@dataclass(frozen=True, slots=True)
class Cost:
    """peak_bytes: over what was in use before the first step."""

    seconds: float
    peak_bytes: int


class Bench:
    """One engine on one model and batch, its code loaded; set up by its first step."""

    def __init__(self, setting: Setting) -> None:
        torch.set_num_threads(1)
        torch.manual_seed(0)
        spec, self._engine = MODELS[setting.model], ENGINES[setting.engine]
        model = spec.build().to(setting.device)
        self._task = Task(model, *spec.batch_of(setting.batch, setting.device), AUTOCAST[setting.dtype])
        self._device, self._clock = setting.device, CLOCKS[setting.clock]
        _load_code(self._task, self._engine)
        self._before = start_of_peak(self._device)

    def first_step(self) -> Cost:
        """Set the engine up and take its first step; to be called once, before `turn`."""
        start = self._clock()
        self._step = self._engine(self._task)
        self._step()
        self._wait()
        cost = Cost(self._clock() - start, self._peak())
        start_of_peak(self._device)
        return cost

    def turn(self) -> Cost:
        """Median seconds of a few steps one after the other, of a single one if it is long.

        Peak bytes are those of all turns so far.
        """
        seconds: list[float] = []
        while sum(seconds) < TURN_SECONDS and len(seconds) < MOST_STEPS:
            start = self._clock()
            self._step()
            self._wait()
            seconds.append(self._clock() - start)
        return Cost(statistics.median(seconds), self._peak())

    def _peak(self) -> int:
        return max(peak(self._device) - self._before, _PAGE)

    def _wait(self) -> None:
        if self._device.startswith("cuda"):
            torch.cuda.synchronize()


def _load_code(task: Task, engine: Callable[[Task], Step]) -> None:
    """One whole step with one example on a copy: modules and operators that are loaded on first use
    (150 MB and 1 s for the first optimizer alone) are not what is compared."""
    engine(Task(copy.deepcopy(task.model), task.inputs[:1], task.targets[:1], task.autocast_type))()
