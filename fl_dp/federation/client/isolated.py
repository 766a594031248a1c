"""Answers each message in its own process, which is forked from a warm process and ends with the answer.

The warm process has imported everything and has never seen a record. A round's memory is freed when its
process ends, as if a new interpreter had been started, but without the seconds that a start takes. Only the
answer, which is meant to leave, goes back.
"""

import ctypes
import gc
import logging
import os
import random
import resource
import select
import signal
import sys
import threading
from collections.abc import Callable

import numpy as np
import torch
from flwr.app import RecordDict
from flwr.common.serde import recorddict_from_proto, recorddict_to_proto
from flwr.proto.recorddict_pb2 import RecordDict as ProtoRecordDict

from fl_dp.errors import LaunchError
from fl_dp.federation.wire.messages import refusal_to_content
from fl_dp.records import Refusal

logger = logging.getLogger("fl_dp.clients")

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_BLOCK = 2**20


def answered_apart(
    handle: Callable[[], RecordDict], while_waiting: Callable[[], None], every: float
) -> RecordDict:
    """Run `handle` in a forked process; returns its answer, or a refusal if the process ends without one.

    while_waiting: called every `every` seconds. LaunchError if this process has threads: a fork would copy
    locks that they hold.
    """
    if threading.active_count() > 1:
        raise LaunchError("a client with threads of its own cannot be forked; it must be restarted")
    reading, writing = os.pipe()
    gc.collect()  # frozen reference cycles stay for ever: 69 KiB for each message
    gc.freeze()  # otherwise the child's collector would copy every page that it visits
    parent = os.getpid()
    try:
        child = os.fork()
    except OSError:
        os.close(reading)
        os.close(writing)
        raise
    if child == 0:
        os.close(reading)
        _run(handle, writing, parent)
    os.close(writing)
    try:
        answer = _read(reading, while_waiting, every)
    except BaseException:
        os.kill(child, signal.SIGKILL)
        raise
    finally:
        os.close(reading)
        _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code != 0 or not answer:
        logger.error("the process of this message ended with code %d and no answer", code)
        return refusal_to_content(Refusal("failed", "its process ended without an answer"))
    return recorddict_from_proto(ProtoRecordDict.FromString(answer))


def _run(handle: Callable[[], RecordDict], writing: int, parent: int) -> None:
    """The child process. Never returns."""
    code = 1
    try:
        end_with(parent)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core file would hold records
        for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(one, signal.SIG_DFL)
        new_randomness()
        answer = recorddict_to_proto(handle()).SerializeToString()
        view = memoryview(answer)
        while view:
            view = view[os.write(writing, view) :]
        code = 0
    except BaseException:
        logger.exception("the process of this message failed")
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def end_with(parent: int) -> None:
    """End this process when its parent ends: nobody would get its answer."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def new_randomness() -> None:
    """Reseed every generator from the system, because forks inherit the same state.

    No draw, mask or noise comes from these generators; a task's own code may use them.
    """
    random.seed()
    np.random.seed(int.from_bytes(os.urandom(4), "little"))
    torch.seed()


def _read(reading: int, while_waiting: Callable[[], None], every: float) -> bytes:
    parts: list[bytes] = []
    while True:
        ready, _, _ = select.select([reading], [], [], every)
        if not ready:
            while_waiting()
            continue
        part = os.read(reading, _BLOCK)
        if not part:
            return b"".join(parts)
        parts.append(part)
