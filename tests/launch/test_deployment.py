"""What is said of clients that a launch started on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from fl_dp.errors import LaunchError
from fl_dp.launch.deployment import ClientWatch


@pytest.fixture
def watch(tmp_path: Path) -> SimpleNamespace:
    """look: of the watch over two clients. code: their process's exit code."""
    found = SimpleNamespace(said=[], code=None, events=tmp_path / "events.jsonl")
    (tmp_path / "log").write_text("ImportError: no torch\n")
    processes = SimpleNamespace(exit_code=lambda name: {"clients": found.code}[name])
    made = ClientWatch(processes, "clients", tmp_path / "log", found.events, ["0", "1"], found.said.append)
    found.look = made.look
    return found


def tell(watch: SimpleNamespace, client: str, what: str, words: str) -> None:
    with watch.events.open("a") as file:
        file.write(json.dumps({"client": client, "what": what, "words": words}) + "\n")


def test_a_client_that_stops_is_said_once_and_when_all_have_the_run_is_given_up(watch):
    watch.look()
    tell(watch, "0", "joined", "joined the server")
    tell(watch, "1", "ended", "stopped (signal 9)")
    for _ in range(3):
        watch.look()
    assert watch.said == ["client 1 stopped (signal 9); the run goes on without it"]
    tell(watch, "0", "ended", "stopped (exit code 1)")
    with pytest.raises(LaunchError, match="Every client has stopped"):
        watch.look()
    assert len(watch.said) == 2


def test_clients_that_never_began_are_seen_with_the_end_of_their_log(watch):
    watch.code = 1
    with pytest.raises(LaunchError, match=r"(?s)stopped \(exit code 1\).*no torch"):
        watch.look()
