"""What is said of clients on this machine, and what a client's console says of its rounds."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from fl_dp.config.client import ClientConfig
from fl_dp.errors import LaunchError
from fl_dp.federation.client.journal import Line, append, journal_folder
from fl_dp.federation.client.journal_line import in_words
from fl_dp.launch.client_watch import ClientWatch, JournalWatch


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
    assert watch.said == ["client 1 stopped (signal 9); going on without it"]
    tell(watch, "0", "ended", "stopped (exit code 1)")
    with pytest.raises(LaunchError, match="Every client has stopped"):
        watch.look()
    assert len(watch.said) == 2


def test_clients_that_never_began_are_seen_with_the_end_of_their_log(watch):
    watch.code = 1
    with pytest.raises(LaunchError, match=r"(?s)stopped \(exit code 1\).*no torch"):
        watch.look()


LINE = Line(
    event="trained", at="2026-01-31T12:00:00", client="north", run="r", round=3, steps=12,
    before=0.404, after=0.5101, budget=2.0, seconds=0.81, process=7,
)  # fmt: skip


@pytest.fixture
def north(tmp_path: Path) -> SimpleNamespace:
    """A client's watch, what it said, and the folder of its journal, which begins later."""
    settings = ClientConfig(client="north", ledger=str(tmp_path / "deep" / "ledger.sqlite"))
    said: list[str] = []
    watch = JournalWatch(settings, said.append)
    return SimpleNamespace(settings=settings, watch=watch, said=said, folder=journal_folder(settings.ledger))


def test_only_what_is_new_of_this_client_is_said_and_no_question_that_is_answered(north):
    north.watch.look()
    append(north.folder, LINE)
    north.watch.look()
    assert north.said == [in_words(LINE)]
    append(north.folder, replace(LINE, event="asked", round=4))
    append(north.folder, replace(LINE, round=4))
    append(north.folder, replace(LINE, event="asked", round=5, process=8))
    append(north.folder, replace(LINE, client="south", round=9))
    append(north.folder, replace(LINE, dataset="of another federation", round=9))
    north.watch.look()
    append(north.folder, replace(LINE, event="declined", round=5, process=8, after=None, reason="no"))
    north.watch.look()
    north.watch.look()
    told = ["round 5 of run r: asked for 12 steps", "round 5 of run r: declined: no"]
    assert north.said[1:] == [in_words(replace(LINE, round=4)), *told]
    JournalWatch(north.settings, pytest.fail).look()  # nothing is new to who looks from now on


def test_at_the_end_of_a_run_it_says_whether_anything_was_trained(north):
    assert north.watch.at_the_end() == "nothing was trained here"  # without a journal nothing of a budget
    for line in (LINE, replace(LINE, round=4, after=2.0), replace(LINE, client="south", round=4)):
        append(north.folder, line)
    assert north.watch.at_the_end() == "2 rounds trained here (epsilon 2.00 of 2.00 is spent)"
    assert north.said[0] == in_words(LINE)  # what came before it is said before it
    append(north.folder, replace(LINE, event="registered", run="", after=2.0))
    assert north.watch.at_the_end() == "nothing was trained here (epsilon 2.00 of 2.00 is spent)"
