"""A measured engine in a process of its own, told by a pipe when to take steps.

All processes are forks of one that has PyTorch loaded and nothing else. They start in a second, and
with the same layout of memory: of five processes with plain SGD, each started afresh, some were 5 %
faster than others for as long as they lived; of five forks, 1 %.
"""

import multiprocessing
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from typing import Any, Literal

import torch

from benchmarks.measure import Bench, Cost, Setting
from fl_dp.errors import FlDpError

# memory: it could not get what it asked for; killed: most often for the same reason.
Status = Literal["refused", "failed", "memory", "killed", "slow"]

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["benchmarks.measure", "torch._dynamo"])  # what the first optimizer loads


class Ended(Exception):  # noqa: N818  (an engine's end is a result, not an error of the benchmark)
    """An engine can go no further. reason: the engine's own, or what was seen."""

    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(status, reason)
        self.status, self.reason = status, reason


class Remote:
    """A `Bench` in another process, with its methods. They raise `Ended` if there is no answer."""

    def __init__(self, process: ForkServerProcess, pipe: Connection, limit: float) -> None:
        self._process, self._pipe, self._limit = process, pipe, limit

    def first_step(self) -> Cost:
        cost: Cost = self._ask("first_step")
        return cost

    def turn(self) -> Cost:
        cost: Cost = self._ask("turn")
        return cost

    def _ask(self, method: str) -> Any:
        with suppress(ConnectionError):  # a process that has ended may have left the reason in the pipe
            self._pipe.send(method)
        try:
            return self._answer()
        except (EOFError, ConnectionError) as error:
            self._process.join()
            raise _death(self._process.exitcode) from error

    def _answer(self) -> Any:
        if not self._pipe.poll(self._limit):
            raise Ended("slow", f"no answer after {self._limit:g} s")
        answer = self._pipe.recv()
        if isinstance(answer, Ended):
            raise answer
        return answer


def _death(exitcode: int | None) -> Ended:
    if exitcode is not None and exitcode < 0:
        return Ended("killed", f"its process was ended by signal {-exitcode}, perhaps for its memory")
    return Ended("failed", f"its process ended with {exitcode}")


@contextmanager
def remote(setting: Setting, limit: float) -> Iterator[Remote]:
    """Start it; the process is gone when the block is left. limit: seconds that one answer may take."""
    here, there = _CONTEXT.Pipe()
    process = _CONTEXT.Process(target=_serve, args=(there, setting), daemon=True)
    process.start()
    there.close()
    try:
        yield Remote(process, here, limit)
    finally:
        process.kill()
        process.join()
        here.close()


def _serve(pipe: Connection, setting: Setting) -> None:
    warnings.simplefilter("ignore")
    with suppress(EOFError, ConnectionError):  # nobody asks any more
        try:
            bench = Bench(setting)
            while True:
                method = pipe.recv()
                pipe.send(getattr(bench, method)())
        except (EOFError, ConnectionError):
            raise
        except Exception as error:  # whatever an engine does wrong is a result, told with its reason
            pipe.send(Ended(_word(error), f"{type(error).__name__}: {error}"))


def _word(error: Exception) -> Status:
    if isinstance(error, FlDpError | NotImplementedError):
        return "refused"
    on_cpu = "DefaultCPUAllocator" in str(error)  # a RuntimeError there
    return "memory" if on_cpu or isinstance(error, MemoryError | torch.OutOfMemoryError) else "failed"
