"""Joins, answers, and joins again; its operator is told of each change once."""

import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from flwr.app import ConfigRecord, Message, MessageType, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from fl_dp.errors import FederationError
from fl_dp.federation.client import loop
from fl_dp.federation.client.loop import ClientLoop, told_to
from fl_dp.federation.link.site_link import LinkLostError, LinkRefusedError
from fl_dp.federation.wire.messages import FINAL_MODEL, REFUSAL, STATEMENT, set_metadata

LOST = LinkLostError("connection refused")
OVER = LinkRefusedError(410, "the run is over")
LATE = LinkRefusedError(404, "this reply is no longer awaited")
UNSIGNED = FederationError("the instruction lacks the signature")


class StopError(Exception): ...


class FakeLink:
    """Does what the scripts say, one entry a call: raise it, call it, or return it."""

    def __init__(self, joins: list[Any], messages: list[Any], answers: list[Any] | None = None) -> None:
        self.joins, self.messages, self.answers = joins, messages, answers or []
        self.sent: list[RecordDict] = []
        self.left = self.kit_has_ended = False
        self.over = False  # what a sign of life is answered

    def join(self) -> None:
        self._do(self.joins)

    def next_message(self) -> Any:
        return self._do(self.messages)

    def sign(self, purpose: str, body: bytes) -> bytes:
        return purpose.encode() + b" of " + body

    def answer(self, message: Message, content: RecordDict) -> None:
        self.sent.append(content)
        self._do(self.answers)

    def leave(self) -> None:
        self.left = True

    def beat(self) -> None:
        if self.over:
            raise OVER

    def _do(self, script: list[Any]) -> Any:
        step = script.pop(0) if script else None
        if isinstance(step, BaseException):
            raise step
        return step


@pytest.fixture(autouse=True)
def no_forks(monkeypatch: pytest.MonkeyPatch) -> None:
    TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1

    def here(handle: Callable[[], RecordDict], beat: Callable[[], None], every: float) -> RecordDict:
        beat()
        return handle()

    monkeypatch.setattr(loop, "answered_apart", here)
    monkeypatch.setattr(loop.time, "sleep", lambda seconds: None)


def asked(kind: str = MessageType.QUERY) -> Message:
    message = Message(RecordDict({"plan": ConfigRecord({})}), 5, kind)
    set_metadata(message, message_id="0")
    return message


def loop_of(link: FakeLink, told: list[str], *, once: bool = False) -> ClientLoop:
    return ClientLoop(link, Path("nowhere.toml"), lambda what, words: told.append(words), once=once)  # type: ignore[arg-type]


def run(link: FakeLink, *, once: bool = False) -> list[str]:
    """What the operator was told until the script was over."""
    told: list[str] = []
    with nullcontext() if once else pytest.raises(StopError):
        loop_of(link, told, once=once).run()
    return told


JOINED, AGAIN = "joined the server", "the server cannot be reached (connection refused); trying again"
CLOCK = LinkRefusedError(401, "your clock is 400 s ahead; set it")


@pytest.mark.parametrize(
    ("joins", "messages", "told"),
    [
        ([LOST, LOST, None, LOST, None], [None, LOST, None, StopError()], [AGAIN, JOINED, AGAIN, JOINED]),
        ([CLOCK, None], [StopError()], [f"the server refuses: {CLOCK}; trying again", JOINED]),
        ([None, None], [LinkRefusedError(409, "not joined"), StopError()], [JOINED]),  # has lapsed
        ([None], [UNSIGNED, None, StopError()], [JOINED, f"a message could not be answered: {UNSIGNED}"]),
    ],
)
def test_it_outlives_its_server_and_tells_of_each_change_once(
    joins: list[Any], messages: list[Any], told: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    link = FakeLink(joins, messages)
    assert run(link) == told
    assert (link.joins, link.sent) == ([], [])
    assert [one.message for one in caplog.records if one.levelname == "INFO"] == told


def test_the_loop_ends_with_the_run_only_with_once() -> None:
    """A server that is just going down is not a run that it took part in."""
    assert run(FakeLink([None], [None, OVER]), once=True) == [JOINED, "the run is over"]
    told = run(FakeLink([None, OVER, LOST, None], [OVER, StopError()]))
    assert (told[:2], told[-1]) == ([JOINED, "the run is over"], JOINED)
    link = FakeLink([OVER, None], [OVER])
    assert run(link, once=True)[-1] == "the run is over"
    assert link.joins == []


def test_an_answer_that_nobody_waits_for_does_not_end_it() -> None:
    told = run(FakeLink([None], [asked(), StopError()], [LATE]))
    assert told[-1] == "an answer came too late: the server no longer waits for it"


def test_an_unknown_kind_is_refused_and_what_goes_wrong_at_home_stays_there() -> None:
    link = FakeLink([None], [asked("train.of_another_kind"), asked(), StopError()])
    run(link)
    words = [content[REFUSAL]["reason"] for content in link.sent]
    assert words == [
        "it does not answer messages of this kind",
        "its own settings cannot be used; its own log says why",
    ]


def test_pauses_grow_and_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(loop.time, "sleep", slept.append)
    link = FakeLink([*([LOST] * 7), None, LOST, StopError()], [None, LOST])
    run(link)
    assert slept[:7] == [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    assert slept[7] == 0.5  # it was there again


def test_news_is_a_line_for_the_starter_and_a_full_disk_ends_no_client(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    told_to(tmp_path / "events.jsonl", "north")("lost", "words")
    (line,) = (tmp_path / "events.jsonl").read_text().splitlines()
    assert {"client": "north", "what": "lost", "words": "words"}.items() <= json.loads(line).items()
    told_to(tmp_path / "nowhere" / "events.jsonl", "north")("joined", JOINED)
    assert f"cannot be written (No such file or directory): {JOINED}" in caplog.text


def test_a_server_that_accepts_and_then_refuses_is_joined_and_reported_rarely(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it fills the operator's file and console with words of its own."""
    slept: list[float] = []
    monkeypatch.setattr(loop.time, "sleep", slept.append)
    run(FakeLink([*([None] * 7), StopError()], [LOST] * 7))
    assert slept[:7] == [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    tell = told_to(tmp_path / "events.jsonl", "north")
    for number in range(100):
        tell("refused", f"{number}")
    tell("over", "the run is over")
    told = [json.loads(line)["what"] for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert told == ["refused"] * 30 + ["over"]


def test_an_end_that_is_heard_while_a_round_is_trained_is_not_forgotten() -> None:
    """The server tells each site once."""
    link = FakeLink([None], [asked()], [LATE])
    link.over = True
    assert run(link, once=True)[-1] == "the run is over"


def test_a_final_model_that_is_not_kept_is_logged() -> None:
    link = FakeLink([None], [asked(FINAL_MODEL), StopError()])
    assert run(link)[-1] == (
        "the final model is not kept: its own settings cannot be used; its own log says why"
    )


def test_a_statement_is_signed_with_the_sites_key(monkeypatch: pytest.MonkeyPatch) -> None:
    said = RecordDict({"heard": ConfigRecord({}), STATEMENT: ConfigRecord({"text": "what it says"})})
    monkeypatch.setitem(loop._HANDLERS, FINAL_MODEL, lambda message, config: said)
    monkeypatch.setattr(loop, "answer", lambda message, context, handle: Message(said, reply_to=message))
    link = FakeLink([None], [asked(FINAL_MODEL), StopError()])
    run(link)
    assert link.sent[0][STATEMENT]["signature"] == b"statement of what it says"


def test_a_client_that_is_terminated_leaves() -> None:
    link = FakeLink([None], [SystemExit(0)])
    with pytest.raises(SystemExit):
        run(link, once=True)
    assert link.left


def test_a_kit_that_has_ended_ends_the_client() -> None:
    link = FakeLink([], [])
    link.kit_has_ended = True
    told: list[str] = []
    with pytest.raises(SystemExit):
        loop_of(link, told).run()
    assert "fl-dp accept" in told[0]


def test_a_machine_without_a_process_for_an_answer_tries_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*arguments: Any) -> RecordDict:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(loop, "answered_apart", none)
    told = run(FakeLink([None, StopError()], [asked()]))
    assert told[-1] == "this machine could not answer (Resource temporarily unavailable); trying again"


def test_a_kind_of_message_cannot_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    run(FakeLink([None], [asked("query." + "x" * 10_000), StopError()]))
    assert len(caplog.text) < 2000
