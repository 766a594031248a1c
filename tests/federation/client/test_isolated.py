"""A round's memory ends with the round."""

import os
import random
import secrets
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import ConfigRecord, RecordDict
from launch.commands import is_alive, wait_for

from fl_dp.errors import LaunchError
from fl_dp.federation.client.isolated import answered_apart
from fl_dp.federation.wire.messages import REFUSAL

PLANTED: list[bytes] = []


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that this process has no threads: other tests may have left some, which do not matter here."""
    monkeypatch.setattr("threading.active_count", lambda: 1)


def nothing() -> None: ...


def said(handle: Callable[[], dict[str, Any]], beat: Callable[[], None] = nothing, every: float = 1.0) -> Any:
    """What `handle` has said, from its own process."""
    return answered_apart(lambda: RecordDict({"said": ConfigRecord(handle())}), beat, every)["said"]


def holds(first: bytes, rest: bytes) -> bool:
    """Whether these bytes stand one after the other in memory of this process that is no file's."""
    with Path("/proc/self/maps").open() as maps, open("/proc/self/mem", "rb", 0) as memory:
        for line in maps:
            place, rights, _, _, inode, *_ = line.split()
            if not rights.startswith("rw") or inode != "0" or "[v" in line:
                continue
            start, end = (int(one, 16) for one in place.split("-"))
            memory.seek(start)
            content = memory.read(end - start)
            found = content.find(rest)
            while found >= 0:
                if content[max(found - len(first), 0) : found] == first:
                    return True
                found = content.find(rest, found + 1)
    return False


@pytest.mark.usefixtures("alone")
def test_memory_of_a_message_is_gone_in_the_next_and_never_in_the_warm_process() -> None:
    half = secrets.token_hex(16)

    def plant() -> dict[str, Any]:
        PLANTED.append(half.encode() + b" a record " + half[::-1].encode())
        return look()

    def look() -> dict[str, Any]:
        found = holds(half.encode() + b" a rec", b"ord " + half[::-1].encode())
        return {"planted": len(PLANTED), "found": found}

    assert dict(said(plant)) == {"planted": 1, "found": True}
    assert dict(said(look)) == {"planted": 0, "found": False}
    assert PLANTED == []


@pytest.mark.usefixtures("alone")
def test_no_two_messages_draw_the_same_numbers_and_the_warm_process_goes_on_with_its_own() -> None:
    def draws() -> dict[str, Any]:
        return {
            "python": random.random(),
            "numpy": float(np.random.rand()),
            "torch": float(torch.rand(())),
            "torch double": float(torch.randn((), dtype=torch.float64)),
        }

    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    first, second = said(draws), said(draws)
    for name in first:
        assert first[name] != second[name], name
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(
    "end",
    [lambda: os._exit(3), lambda: os.kill(os.getpid(), signal.SIGKILL), lambda: 1 / 0, lambda: sys.exit()],
)
def test_a_process_that_ends_without_an_answer_is_a_failure_in_fixed_words(end: Callable[[], Any]) -> None:
    refusal = answered_apart(lambda: end() or RecordDict(), nothing, 1.0)[REFUSAL]
    assert refusal["status"] == "failed"
    assert refusal["reason"] == "its process ended without an answer"


@pytest.mark.usefixtures("alone")
def test_signs_of_life_are_given_meanwhile(tmp_path: Path) -> None:
    beats: list[int] = []
    enough = tmp_path / "enough"

    def wait() -> dict[str, Any]:
        while not enough.exists():
            time.sleep(0.01)
        return {}

    def beat() -> None:
        beats.append(1)
        if len(beats) == 2:
            enough.touch()

    said(wait, beat, 0.01)
    assert len(beats) >= 2


@pytest.mark.usefixtures("alone")
def test_an_answer_of_many_megabytes_comes_whole() -> None:
    sent = os.urandom(5_000_000)
    assert said(lambda: {"bytes": sent})["bytes"] == sent


def test_a_process_with_threads_is_not_forked() -> None:
    release = threading.Event()
    thread = threading.Thread(target=release.wait)
    thread.start()
    try:
        with pytest.raises(LaunchError, match="threads of its own"):
            answered_apart(RecordDict, nothing, 1.0)
    finally:
        release.set()
        thread.join()


@pytest.mark.usefixtures("alone")
def test_an_interruption_ends_the_round_too() -> None:
    children: set[int] = set()
    before = children_of_this()

    def interrupt() -> None:
        children.update(children_of_this() - before)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        answered_apart(lambda: time.sleep(30) or RecordDict(), interrupt, 0.1)  # type: ignore[func-returns-value]
    assert children
    assert not any(Path(f"/proc/{child}").exists() for child in children)


@pytest.mark.usefixtures("alone")
def test_a_round_ends_with_its_client(tmp_path: Path) -> None:
    """SIGKILL leaves the client no time to end anything."""
    file = tmp_path / "pid"

    def work() -> dict[str, Any]:
        file.write_text(str(os.getpid()))
        time.sleep(120)
        return {}

    client = os.fork()
    if client == 0:
        try:
            said(work)
        finally:
            os._exit(1)
    while not (file.exists() and file.read_text()):
        time.sleep(0.01)
    os.kill(client, signal.SIGKILL)
    os.waitpid(client, 0)
    wait_for(lambda: not is_alive(int(file.read_text())))


def children_of_this() -> set[int]:
    return {int(one) for one in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()}


@pytest.mark.usefixtures("alone")
def test_reference_cycles_of_a_message_are_freed() -> None:
    """What is frozen before the fork is never collected: a client would grow with each message."""

    class Circle: ...

    one = Circle()
    one.itself = one  # type: ignore[attr-defined]
    gone = weakref.ref(one)
    del one
    answered_apart(RecordDict, lambda: None, 1.0)
    assert gone() is None
