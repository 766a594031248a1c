"""Only what actors need is started, and Ray itself is left as it was."""

import inspect
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import ray
from ray._private import node

from fl_dp.simulation.cluster import runtime as ray_runtime
from fl_dp.simulation.cluster.runtime import errors_in_the_log, lean_head

NOT_NEEDED = {"monitor.py", "log_monitor.py", "dashboard.py"}


class Gcs:
    """Knows of a machine when it is asked for the third time."""

    asked = 0

    def get_all_node_info(self) -> dict[str, str]:
        self.asked += 1
        return {"this": "machine"} if self.asked == 3 else {}


class Node:
    """A Ray that has other parts than the one we know."""

    def __init__(self) -> None:
        self.started: list[str] = []

    def start_ray_processes(self) -> None:
        self.started.append("raylet")

    def start_something_new(self) -> None:
        self.started.append("something new")

    def get_gcs_client(self) -> Gcs:
        return Gcs()


def test_within_it_a_node_starts_less_and_waits_until_it_is_there(monkeypatch):
    gcs = Gcs()
    monkeypatch.setattr(node, "Node", Node)
    monkeypatch.setattr(Node, "get_gcs_client", lambda self: gcs)
    with lean_head():
        one: Any = node.Node()
    for start in (one.start_monitor, one.start_log_monitor, one.start_ray_processes, one.start_something_new):
        start()
    one.start_api_server(include_dashboard=False, raise_on_failure=False)
    assert one._webui_url == ""
    assert one.started == ["raylet", "something new"]
    assert gcs.asked == 3


def test_after_it_ray_is_whole(monkeypatch):
    monkeypatch.setattr(node, "Node", Node)
    with pytest.raises(KeyError), lean_head():
        raise KeyError(node.Node.__name__)
    assert node.Node is Node


def test_what_is_put_aside_is_there_in_this_ray():
    for name in ("start_monitor", "start_log_monitor", "start_api_server", "start_ray_processes"):
        assert callable(getattr(node.Node, name))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning:ray")
def test_a_real_one_has_no_processes_that_are_not_needed():
    with (
        TemporaryDirectory(prefix="fl-dp-", dir="/tmp") as scratch,  # sockets want a short path
        ray_runtime.running("", Path(scratch), 1),
    ):
        (found,) = [one for one in ray.nodes() if one["Alive"]]
        names = set(_programs(scratch))
    assert found["Resources"]["CPU"] == 1
    assert "raylet" in names
    assert not names & NOT_NEEDED


def _programs(scratch: str) -> Iterator[str]:
    """Names of the programs whose arguments tell of the folder `scratch`."""
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().decode(errors="replace").split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if any(scratch in word for word in words):
            yield from (Path(word).name for word in words[:3])


def test_what_ray_says_of_dead_processes_is_logged_and_not_printed(capsys, caplog):
    from ray._private import worker

    message = {"lines": ["A worker died."], "pid": "raylet", "is_err": False}
    before = worker.print_to_stdstream
    with errors_in_the_log():
        worker.print_to_stdstream(message, ignore_prefix=False)
    assert worker.print_to_stdstream is before
    assert capsys.readouterr() == ("", "")
    assert [(one.name, one.message) for one in caplog.records] == [
        ("fl_dp.clients", "Ray (raylet): A worker died.")
    ]


def test_rays_listener_still_prints_by_the_function_that_is_replaced():
    from ray._private import worker

    assert "print_to_stdstream(" in inspect.getsource(worker.listen_error_messages)
