"""What a site's console says of its client's life."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fl_dp.config.client import ClientConfig
from fl_dp.durable_files import exclusive
from fl_dp.errors import AtWorkError, ConfigError, ExitCode
from fl_dp.federation.client.journal import Line, append, in_words, journal_folder
from fl_dp.federation.client.registration import account_digest, dataset_name
from fl_dp.kits.provision import loopback_server, loopback_site
from fl_dp.launch import site as module
from fl_dp.launch.site import JournalWatch, check_task
from fl_dp.records import TEST_RECORDS


def test_the_end_of_a_run_is_said_with_what_came_of_it(tmp_path, monkeypatch):
    """The client itself is a process that tells what a real one would."""
    lines = [{"what": "joined", "words": "joined the server"}, {"what": "over", "words": "the run is over"}]
    events = "".join(f"{json.dumps(line)}\n" for line in lines)

    def start(processes: Any, name: str, clients: Any, env: dict[str, str], file: Path, log: Path) -> None:
        code = f"open({clients[0].events!r}, 'w').write({events!r})"
        processes.start(name, [sys.executable, "-c", code], env, log)

    monkeypatch.setattr(module, "start_clients", start)
    keys, said = tmp_path / "keys", list[str]()
    loopback_server(keys, 1)
    settings = ClientConfig(client="north", ledger=str(tmp_path / "ledger.sqlite"))
    kit = loopback_site(keys, "north")
    code = module.run_client(
        settings,
        kit,
        "127.0.0.1:1",
        [],
        said.append,
        folder=tmp_path / "own",
        once=True,
        at_the_end=lambda: "nothing was trained here",
    )
    assert code == ExitCode.TRAINED
    assert said[-2:] == ["joined the server", "the run is over; nothing was trained here"]


def test_data_have_one_client_in_a_federation_at_a_time(tmp_path, monkeypatch):
    """Two would be asked one question, and pay from one account for the same round."""
    monkeypatch.setattr(module, "start_clients", lambda *given: pytest.fail("it starts"))
    keys, own = tmp_path / "keys", ClientConfig(client="south", ledger=str(tmp_path / "l.sqlite"))
    loopback_server(keys, 1)
    kit = loopback_site(keys, "south")
    first = tmp_path / f".client-{account_digest(own)}-{kit.roster.authority[:16]}"
    with exclusive(first), pytest.raises(AtWorkError, match=r"another client of .* pays for digits"):
        module.run_client(own, kit, "", [], print, folder=tmp_path / "own", once=True)


LINE = Line(
    event="trained",
    at="2026-01-31T12:00:00",
    client="north",
    run="r",
    round=3,
    steps=12,
    before=0.404,
    after=0.5101,
    budget=2.0,
    seconds=0.81,
    process=7,
)


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


@pytest.mark.parametrize("event", ["evaluated", "failed"])
def test_what_its_test_records_have_spent_is_not_said_of_its_training(north, event):
    dataset = dataset_name(north.settings)
    append(north.folder, replace(LINE, dataset=dataset))
    test = {"dataset": dataset + TEST_RECORDS, "before": 0.0, "after": 1.5, "budget": 1.5}
    append(north.folder, replace(LINE, event=event, **test))
    assert north.watch.at_the_end() == "1 round trained here (epsilon 0.52 of 2.00 is spent)"
    assert "of 1.50" in north.said[-1]


READS = """
from fl_dp import Task
class Ours(Task):
    classes = ("no", "yes")
    def train_data(self):
        return [[0.0], [1.0]], [0, 1]
    def test_data(self):
        raise RuntimeError("read")
"""


def settings(tmp_path: Path, **more: object) -> ClientConfig:
    return ClientConfig(client="north", ledger=str(tmp_path / "l.sqlite"), **more)


def test_no_test_row_is_read_before_a_client_joins(tmp_path):
    (tmp_path / "reads.py").write_text(READS)
    check_task(settings(tmp_path, task=str(tmp_path / "reads.py")))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"model": "lenet-gn"}, "client north would decline every round: model: .*does not fit"),
        ({"loss": "mse"}, r"loss: .*mse"),
        ({"device": "tpu"}, "device = 'tpu': not found on this machine"),
        ({"data": "csv:norht.csv"}, r"norht\.csv: no such file; expected a table\.$"),
        ({"model": "lenet-gn", "loss": "mse"}, r"^((?!\.;).)*$"),  # it reads as one sentence
    ],
)
def test_what_does_not_suit_the_records_is_refused_and_no_ledger_is_made(wrong, words, tmp_path):
    check_task(settings(tmp_path))
    with pytest.raises(ConfigError, match=words):
        check_task(settings(tmp_path, **wrong))
    assert list(tmp_path.iterdir()) == []
