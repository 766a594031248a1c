"""The server's end: what it asks reaches one site, and only that site's own answer counts."""

import threading
import time
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from federation.link.wired import REPORT, Federation, in_thread, push_raw
from flwr.app import Array, ArrayRecord, ConfigRecord, MessageType, RecordDict
from flwr.app.message import message as message_module
from flwr.server.superlink.linkstate import in_memory_linkstate, utils
from flwr.server.utils import validator
from flwr.supercore.corestate import in_memory_corestate
from flwr.supercore.inflatable.inflatable_object import iterate_object_tree

from fl_dp.errors import ConfigError
from fl_dp.federation.link import door, site_link
from fl_dp.federation.link import hub as hub_module
from fl_dp.federation.link.signed_message import SIGNED, Bearing
from fl_dp.federation.link.site_link import LinkRefusedError


def test_a_message_goes_there_and_its_answer_comes_back(federation: Federation) -> None:
    link = federation.joined("north")
    weights = ArrayRecord({"w": Array(np.arange(12, dtype=np.float32).reshape(3, 4))})
    asked = federation.asked("north", link, MessageType.TRAIN, RecordDict({"arrays": weights}))
    assert (asked.content["arrays"]["w"].numpy() == weights["w"].numpy()).all()
    assert SIGNED not in asked.content
    doubled = ArrayRecord({"w": Array(2 * weights["w"].numpy())})
    link.answer(asked, RecordDict({"arrays": doubled}))
    reply = federation.reply_to(asked)
    assert (reply.content["arrays"]["w"].numpy() == doubled["w"].numpy()).all()
    assert list(reply.content) == ["arrays"]
    assert reply.metadata.reply_to_message_id == asked.metadata.message_id
    assert reply.metadata.src_node_id == federation.node("north")
    assert federation.hub.state.num_message_ins() == federation.hub.state.num_message_res() == 0
    assert not federation.hub.state.object_store.store  # type: ignore[attr-defined]


def test_a_waiting_site_hears_at_once(federation: Federation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "LONG_POLL", 60.0)
    link = federation.joined("north")
    assert federation.grid.get_node_ids() == [federation.node("north")]
    thread = in_thread(lambda: (time.sleep(0.1), federation.ask("north")))
    begun = time.monotonic()
    assert link.next_message() is not None
    assert time.monotonic() - begun < 30
    thread.join()


def test_a_site_that_joins_again_is_another_node_and_its_old_message_failed(federation: Federation) -> None:
    link = federation.joined("north")
    before = federation.node("north")
    message = federation.asked("north", link)
    federation.joined("north")
    assert federation.node("north") != before
    assert federation.reply_to(message).error.reason == "site north is no longer connected"


def test_a_silent_site_is_soon_not_waited_for(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = federation.joined("north")
    message = federation.asked("north", link)
    monkeypatch.setattr(hub_module, "SILENCE", 0.02)  # from its last sign of life on
    link.beat()
    deadline = time.monotonic() + 60
    while federation.grid.get_node_ids():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert federation.reply_to(message).has_error()


def test_an_answer_that_is_not_all_there_keeps_nobody_waiting(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, fast = federation.joined("north"), federation.joined("south")
    late, early = federation.asked("north", slow), federation.asked("south", fast)
    monkeypatch.setattr(slow._client, "PushObject", lambda request: None)
    slow.answer(late, REPORT)
    fast.answer(early, REPORT)
    asked = [one.metadata.message_id for one in (late, early)]
    (reply,) = federation.grid.pull_messages(asked)
    assert reply.metadata.reply_to_message_id == asked[1]
    slow.leave()
    assert federation.reply_to(late).has_error()


def test_a_question_that_is_over_while_others_are_waited_for_fails_and_ends_no_run(
    federation: Federation,
) -> None:
    """One present site that answered nothing ended the run, by a ValueError, after round-timeout."""
    mute, other = federation.joined("north"), federation.joined("south")
    question = federation.asked("north", mute, MessageType.QUERY)
    trained = federation.asked("south", other)
    federation.hub.state._until[question.metadata.message_id] = time.monotonic()
    assert list(federation.grid.pull_messages([trained.metadata.message_id])) == []
    assert federation.reply_to(question).error.reason == "it did not answer in time"


def test_an_answer_is_taken_once(federation: Federation) -> None:
    link = federation.joined("north")
    message = federation.asked("north", link)
    link.answer(message, REPORT)
    federation.reply_to(message)
    with pytest.raises(LinkRefusedError, match="no longer awaited") as refused:
        link.answer(message, RecordDict({"report": ConfigRecord({"ok": False})}))
    assert refused.value.is_late


def test_a_site_that_takes_anothers_name_is_not_heard(federation: Federation) -> None:
    link = federation.joined("north")
    for name, believed in (("south", False), ("north", True)):
        message = federation.asked("north", link, MessageType.QUERY)
        link.answer(message, RecordDict({"profile": ConfigRecord({"client": name})}))
        reply = federation.reply_to(message)
        assert reply.has_content() == believed
        if not believed:
            assert reply.error.reason == "gives another name than its key has in the roster, north"


@pytest.mark.parametrize("how", ["unsigned", "by another site"])
def test_an_answer_without_the_sites_signature_is_an_error(
    federation: Federation, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """TLS and the request's signature are valid; the message's own is not."""
    link = federation.joined("north")
    another, sign = federation.sites["south"].key, site_link.signed

    def forged(content: RecordDict, bearing: Bearing, key: Any) -> RecordDict:
        return content if how == "unsigned" else sign(content, bearing, another)

    monkeypatch.setattr(site_link, "signed", forged)
    assert "lacks the signature" in federation.answer("north", link).error.reason


@pytest.mark.parametrize(
    "forged",
    [
        {"inner": {"_src_node_id": 5}},
        {"inner": {"_dst_node_id": 5}},
        {"inner": {"_reply_to_message_id": "0" * 64}},
        {"inner": {"_group_id": "9"}},
        {"inner": {"_message_type": "query"}},
        {"inner": {"_run_id": 5}},
        {"root": ConfigRecord({"no": "message"})},
    ],
)
def test_an_answer_with_the_content_of_another_message_is_an_error(
    federation: Federation, forged: dict[str, Any]
) -> None:
    """The door checks what the request says; the objects may say otherwise."""
    link = federation.joined("north")
    message = federation.asked("north", link)
    push_raw(link, message, **forged)
    reply = federation.reply_to(message)
    assert (
        "content belongs to another message" if "inner" in forged else "not a message"
    ) in reply.error.reason
    assert reply.metadata.reply_to_message_id == message.metadata.message_id  # the strategy looks it up so
    assert federation.answer("north", link).has_content()  # and the next one is as good as ever


def jump(monkeypatch: pytest.MonkeyPatch, whose: str, seconds: float) -> None:
    """Set a wall clock: Flower's of the server, or that of this thread, which is the site's."""
    if whose == "server":
        ahead = timedelta(seconds=seconds)
        for asks in (in_memory_linkstate, utils, in_memory_corestate, validator, message_module):
            monkeypatch.setattr(asks, "now", lambda: datetime.now(UTC) + ahead)
        return
    wall, site = time.time, threading.current_thread()
    monkeypatch.setattr(
        time, "time", lambda: wall() + (seconds if threading.current_thread() is site else 0.0)
    )


@pytest.mark.parametrize("seconds", [13.0, 86_400.0, -86_400.0])
@pytest.mark.parametrize("whose", ["server", "site"])
def test_a_jump_of_a_wall_clock_within_a_round_loses_nothing(
    federation: Federation, monkeypatch: pytest.MonkeyPatch, whose: str, seconds: float
) -> None:
    """Before it is fetched, and while it is trained; what is asked afterwards is answered, too."""
    link = federation.joined("north")
    fetched, message = federation.ask("north"), None
    for _ in range(2):
        jump(monkeypatch, whose, seconds)
        assert federation.grid.get_node_ids() == [federation.node("north")]
        assert federation.grid.pull_messages([fetched]) == []
        message = message or link.next_message()
        assert message is not None
    link.answer(message, REPORT)
    assert federation.reply_to(message).has_content()
    assert federation.answer("north", link).has_content()


def test_a_message_is_over_when_its_time_has_passed(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A site that sees it later does not train in vain; nothing of it stays in memory."""
    link, state = federation.joined("north"), federation.hub.state
    fetched, unseen = federation.asked("north", link), federation.ask("north")
    now = time.monotonic
    monkeypatch.setattr(hub_module, "time", SimpleNamespace(monotonic=lambda: now() + 61.0))
    assert state.get_message_ins(federation.node("north"), 1) == []
    with pytest.raises(LinkRefusedError, match="no longer awaited"):
        link.answer(fetched, REPORT)
    (reply,) = federation.grid.pull_messages([unseen])
    assert reply.error.reason == "it did not answer in time"
    assert kept(federation) == []


def test_a_message_that_is_given_up_leaves_nothing_and_a_late_answer_is_refused(
    federation: Federation,
) -> None:
    """One message was never fetched, one was, and for one half an answer has come: none keeps its model."""
    link = federation.joined("north")
    model = ArrayRecord({"w": Array(np.ones(1000, np.float32))})
    content = RecordDict({"arrays": model})
    begun = federation.asked("north", link, MessageType.TRAIN, content)
    wanted = frozenset(("a" * 64, "b" * 64))
    federation.hub.begin_upload(begun.metadata.message_id, federation.node("north"), "a" * 64, wanted)
    asked = [begun.metadata.message_id, federation.ask("north", MessageType.TRAIN, content)]
    other = federation.ask("north", MessageType.TRAIN, content)
    federation.grid.give_up(asked)
    assert kept(federation) == [other]  # with the model, which it shared with those
    (tree,) = (federation.hub.state.object_store.get_object_tree(one) for one in kept(federation))
    assert all(federation.hub.state.object_store.get(part.object_id) for part in iterate_object_tree(tree))
    federation.grid.give_up([other])
    assert kept(federation) == []
    with pytest.raises(LinkRefusedError, match="no longer awaited") as refused:
        link.answer(begun, REPORT)
    assert refused.value.is_late


def kept(federation: Federation) -> list[str]:
    """The messages of which anything is kept anywhere; objects without a message would show as ""."""
    hub, state = federation.hub, federation.hub.state
    found = {*state.message_ins_store, *state._until, *hub._rooms, *hub._uploads, *federation.grid._asked}
    return sorted(found or ({""} if state.object_store.store else found))  # type: ignore[attr-defined]


def test_another_flower_is_refused_in_words() -> None:
    with pytest.raises(ConfigError, match=r"Flower 1.43.0: .* install that: pip install flwr==1\.42\.0"):
        hub_module._check_version("1.43.0")
    assert version("flwr") in hub_module.CHECKED
