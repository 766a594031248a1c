import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from fl_dp.errors import FederationError


@pytest.fixture
def flower_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a client's process has it: messages cannot be made without."""
    from flwr.supercore.task_identity import TaskIdentity

    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


@pytest.fixture(autouse=True)
def _ctrl_c_is_heard() -> Iterator[None]:
    """Pytest in the background ignores SIGINT, and so would all that it starts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """What Ray does. there: whether it runs; problem: why it does not start."""
    found = SimpleNamespace(seen=[], there=False, problem="")

    @contextmanager
    def running(address: str, scratch: Path, cpus: int) -> Iterator[None]:
        if found.problem:
            raise FederationError(found.problem)
        found.seen.append("start")
        found.there = True
        yield
        found.seen.append("end")
        found.there = False

    monkeypatch.setattr("fl_dp.launch.ray_ahead.running", running)
    monkeypatch.setattr("fl_dp.launch.ray_ahead.ray_is_there", lambda: found.there)
    return found
