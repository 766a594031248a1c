"""A round's memory ends with the round."""

import os
import random
import secrets
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import ConfigRecord, RecordDict

from fl_dp.errors import LaunchError
from fl_dp.federation.client.isolated import answered_apart
from fl_dp.federation.wire.messages import REFUSAL

PLANTED: list[bytes] = []


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if this process had no threads: other tests may have left some, which take no part here."""
    monkeypatch.setattr("threading.active_count", lambda: 1)


def nothing() -> None: ...


def said(handle: Callable[[], dict[str, Any]]) -> Any:
    """What `handle` has said, from its own process."""
    return answered_apart(lambda: RecordDict({"said": ConfigRecord(handle())}), nothing, 1.0)["said"]


def holds(canary: bytes) -> bool:
    """Whether these bytes, which this function does not hold in one piece, are in this process's memory."""
    first, rest = canary[:1], canary[1:]
    del canary
    with Path("/proc/self/maps").open() as maps, open("/proc/self/mem", "rb", 0) as memory:
        for line in maps:
            words = line.split()
            if "r" not in words[1] or "[v" in line:
                continue
            start, end = (int(one, 16) for one in words[0].split("-"))
            try:
                memory.seek(start)
                content = memory.read(end - start)
            except (OSError, ValueError):
                continue
            place = content.find(rest)
            while place > 0:
                if content[place - 1 : place] == first:
                    return True
                place = content.find(rest, place + 1)
    return False


@pytest.mark.usefixtures("alone")
def test_what_a_message_left_in_memory_is_gone_in_the_next_and_was_never_in_the_warm_process() -> None:
    half = secrets.token_hex(16)

    def plant() -> dict[str, Any]:
        PLANTED.append(half.encode() + b" a record " + half[::-1].encode())
        return {"planted": len(PLANTED)}

    def look() -> dict[str, Any]:
        plain = half.encode() + b" a rec"
        return {"planted": len(PLANTED), "found": holds(plain + b"ord " + half[::-1].encode()[:4])}

    assert said(plant)["planted"] == 1
    assert said(look)["planted"] == 0
    assert PLANTED == []


@pytest.mark.usefixtures("alone")
def test_no_two_messages_draw_the_same_numbers() -> None:
    def draws() -> dict[str, Any]:
        return {
            "python": random.random(),
            "numpy": float(np.random.rand()),
            "torch": float(torch.rand(())),
            "torch double": float(torch.randn((), dtype=torch.float64)),
        }

    first, second = said(draws), said(draws)
    for name in first:
        assert first[name] != second[name], name


@pytest.mark.usefixtures("alone")
def test_the_warm_process_goes_on_drawing_as_if_nothing_had_been_asked() -> None:
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    said(lambda: {"drawn": float(torch.rand(()))})
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
def test_signs_of_life_are_given_meanwhile() -> None:
    beats: list[float] = []
    answered_apart(lambda: time.sleep(0.5) or RecordDict(), lambda: beats.append(time.monotonic()), 0.1)  # type: ignore[func-returns-value]
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


def test_a_round_ends_with_its_client(tmp_path: Path) -> None:
    """SIGKILL leaves the client no time to end anything."""
    code = f"""
        import os, time
        from pathlib import Path
        from flwr.app import RecordDict
        from fl_dp.federation.client.isolated import answered_apart
        def work():
            Path({str(tmp_path / "pid")!r}).write_text(str(os.getpid()))
            time.sleep(60)
            return RecordDict()
        answered_apart(work, lambda: None, 1.0)
    """
    client = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)])
    pid = tmp_path / "pid"
    while not (pid.exists() and pid.read_text()):
        time.sleep(0.05)
    client.kill()
    client.wait()
    deadline = time.monotonic() + 5
    while Path(f"/proc/{pid.read_text()}/mem").exists() and not is_zombie(int(pid.read_text())):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def children_of_this() -> set[int]:
    return {int(one) for one in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()}


def is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True
