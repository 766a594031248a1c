"""Joins, answers, and joins again; its operator is told of each change once."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flwr.app import ConfigRecord, Message, MessageType, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from fl_dp.errors import FederationError
from fl_dp.federation.client import loop
from fl_dp.federation.client.loop import ClientLoop, told_to
from fl_dp.federation.link.site_link import LinkLostError, LinkRefusedError
from fl_dp.federation.wire.messages import FINAL_MODEL, REFUSAL, STATEMENT

LOST = LinkLostError("connection refused")
OVER = LinkRefusedError(410, "the run is over")


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
    message.metadata.__dict__["_message_id"] = "0"
    return message


def run(link: FakeLink, *, once: bool = False) -> list[str]:
    """What the operator was told until the script was over."""
    told: list[str] = []
    made = ClientLoop(link, Path("nowhere.toml"), lambda what, words: told.append(words), once=once)  # type: ignore[arg-type]
    if once:
        made.run()
    else:
        with pytest.raises(StopError):
            made.run()
    return told


def test_it_outlives_its_server() -> None:
    link = FakeLink([LOST, LOST, None, LOST, None], [None, LOST, None, StopError()])
    assert run(link) == [
        "the server cannot be reached (connection refused); trying again",
        "joined the server",
        "the server cannot be reached (connection refused); trying again",
        "joined the server",
    ]


def test_once_it_ends_with_the_run() -> None:
    assert run(FakeLink([None], [None, OVER]), once=True) == ["joined the server", "the run is over"]


def test_else_it_waits_for_the_next() -> None:
    link = FakeLink([None, OVER, LOST, None], [OVER, StopError()])
    told = run(link)
    assert told[:2] == ["joined the server", "the run is over"]
    assert told[-1] == "joined the server"


def test_once_means_a_run_that_it_took_part_in() -> None:
    """A server that is just going down is none."""
    link = FakeLink([OVER, None], [OVER])
    assert run(link, once=True)[-1] == "the run is over"
    assert link.joins == []


def test_a_refusal_is_told_in_the_servers_words() -> None:
    link = FakeLink(
        [LinkRefusedError(401, "your clock is 400 s ahead of the server's; set it"), None], [StopError()]
    )
    assert (
        run(link)[0] == "the server refuses: your clock is 400 s ahead of the server's; set it; trying again"
    )


def test_who_has_lapsed_joins_again_without_a_word() -> None:
    link = FakeLink([None, None], [LinkRefusedError(409, "not joined"), StopError()])
    assert run(link) == ["joined the server"]
    assert link.joins == []


def test_an_answer_that_nobody_waits_for_does_not_end_it() -> None:
    link = FakeLink(
        [None], [asked(), StopError()], [LinkRefusedError(404, "nobody waits for this reply any more")]
    )
    assert run(link)[-1] == "an answer came too late: the server waits for it no longer"


def test_a_message_that_is_not_the_servers_is_not_answered() -> None:
    link = FakeLink([None], [FederationError("the instruction lacks the signature"), None, StopError()])
    run(link)
    assert link.sent == []


def test_an_unknown_kind_is_refused_and_what_goes_wrong_at_home_stays_there() -> None:
    link = FakeLink([None], [asked("train.of_another_kind"), asked(), StopError()])
    run(link)
    words = [content[REFUSAL]["reason"] for content in link.sent]
    assert words == [
        "it answers no messages of this kind",
        "its own settings cannot be used; its own log says why",
    ]


def test_pauses_grow_and_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(loop.time, "sleep", slept.append)
    link = FakeLink([*([LOST] * 7), None, LOST, StopError()], [LOST])
    run(link)
    assert slept[:7] == [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    assert slept[7] == 0.5  # it was there again


def test_what_is_told_is_a_line_that_the_starter_reads(tmp_path: Path) -> None:
    tell = told_to(tmp_path / "events.jsonl", "north")
    tell("lost", "words")
    (line,) = (tmp_path / "events.jsonl").read_text().splitlines()
    assert {"client": "north", "what": "lost", "words": "words"}.items() <= json.loads(line).items()


def test_an_end_that_is_heard_while_a_round_is_trained_is_not_forgotten() -> None:
    """The server tells each site once."""
    late = LinkRefusedError(404, "nobody waits for this reply any more")
    link = FakeLink([None], [asked()], [late])
    link.over = True
    assert run(link, once=True)[-1] == "the run is over"


def test_a_message_that_is_not_the_servers_is_said() -> None:
    link = FakeLink([None], [FederationError("the instruction lacks the signature"), StopError()])
    assert run(link)[-1] == "a message is not answered: the instruction lacks the signature"


def test_a_final_model_that_is_not_kept_is_said() -> None:
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


def test_who_is_ended_politely_leaves() -> None:
    link = FakeLink([None], [SystemExit(0)])
    with pytest.raises(SystemExit):
        run(link, once=True)
    assert link.left


def test_a_kit_that_has_ended_ends_the_client() -> None:
    link = FakeLink([], [])
    link.kit_has_ended = True
    told: list[str] = []
    made = ClientLoop(link, Path("nowhere.toml"), lambda what, words: told.append(words))  # type: ignore[arg-type]
    with pytest.raises(SystemExit):
        made.run()
    assert "fl-dp accept" in told[0]


def test_a_machine_without_a_process_for_an_answer_tries_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*arguments: Any) -> RecordDict:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(loop, "answered_apart", none)
    told = run(FakeLink([None, StopError()], [asked()]))
    assert told[-1] == "this machine could not answer (Resource temporarily unavailable); trying again"


def test_a_disk_that_takes_no_line_does_not_end_a_client(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    told_to(tmp_path / "nowhere" / "events.jsonl", "north")("joined", "joined the server")
    assert "not told (No such file or directory): joined the server" in caplog.text


def test_a_kind_of_message_cannot_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    run(FakeLink([None], [asked("query." + "x" * 10_000), StopError()]))
    assert len(caplog.text) < 2000
