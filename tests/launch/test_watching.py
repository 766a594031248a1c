"""What is said of clients that were started here."""

import json
from pathlib import Path

import pytest

from fl_dp.errors import LaunchError
from fl_dp.launch.watching import ClientWatch


class FakeProcesses:
    code: int | None = None

    def exit_code(self, name: str) -> int | None:
        assert name == "clients"
        return self.code


@pytest.fixture
def watch(tmp_path: Path) -> tuple[ClientWatch, FakeProcesses, Path, list[str]]:
    said: list[str] = []
    processes, events = FakeProcesses(), tmp_path / "events.jsonl"
    (tmp_path / "log").write_text("ImportError: no torch\n")
    made = ClientWatch(processes, "clients", tmp_path / "log", events, ["0", "1"], said.append)
    return made, processes, events, said


def tell(events: Path, client: str, what: str, words: str) -> None:
    with events.open("a") as file:
        file.write(json.dumps({"client": client, "what": what, "words": words}) + "\n")


Watch = tuple[ClientWatch, FakeProcesses, Path, list[str]]


def test_a_client_that_stops_is_said_once_and_the_run_goes_on(watch):
    made, _, events, said = watch
    made.look()
    tell(events, "0", "joined", "joined the server")
    tell(events, "1", "ended", "stopped (signal 9)")
    for _ in range(3):
        made.look()
    assert said == ["client 1 stopped (signal 9); going on without it"]


def test_when_every_client_has_stopped_the_run_is_given_up(watch):
    made, _, events, said = watch
    tell(events, "0", "ended", "stopped (exit code 1)")
    tell(events, "1", "ended", "stopped (signal 9)")
    with pytest.raises(LaunchError, match="Every client has stopped"):
        made.look()
    assert len(said) == 2


def test_clients_that_never_began_are_seen_with_the_end_of_their_log(watch):
    made, processes, _, _ = watch
    processes.code = 1
    with pytest.raises(LaunchError, match=r"(?s)stopped \(exit code 1\).*no torch"):
        made.look()
