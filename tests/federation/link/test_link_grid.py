"""The server's end: what it asks reaches one site, and only that site's own answer counts."""

import time
from typing import Any

import numpy as np
import pytest
from federation.link.wired import REPORT, Federation, in_thread, push_raw
from flwr.app import Array, ArrayRecord, ConfigRecord, MessageType, RecordDict

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
    assert federation.reply_to(message).error.reason == "site north is not there any more"


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


def test_an_answer_is_taken_once(federation: Federation) -> None:
    link = federation.joined("north")
    message = federation.asked("north", link)
    link.answer(message, REPORT)
    federation.reply_to(message)
    with pytest.raises(LinkRefusedError, match="nobody waits") as refused:
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
            assert reply.error.reason == "calls itself another client than its key's, north"


@pytest.mark.parametrize("how", ["unsigned", "by another site"])
def test_an_answer_without_the_sites_signature_is_none(
    federation: Federation, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """TLS and the request's signature hold; the message's own does not."""
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
def test_an_answer_that_is_another_inside_is_none(federation: Federation, forged: dict[str, Any]) -> None:
    """The door checks what the request says; the objects may say otherwise."""
    link = federation.joined("north")
    message = federation.asked("north", link)
    push_raw(link, message, **forged)
    reply = federation.reply_to(message)
    assert ("another one inside" if "inner" in forged else "no message") in reply.error.reason
    assert reply.metadata.reply_to_message_id == message.metadata.message_id  # the strategy looks it up so
    assert federation.answer("north", link).has_content()  # and the next one is as good as ever
