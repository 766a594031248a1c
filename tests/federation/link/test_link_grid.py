"""The server's end: what it asks reaches one site, and only that site's own answer counts."""

import time
from typing import Any

import numpy as np
import pytest
from federation.link.wired import Federation, in_thread, push_raw
from flwr.app import Array, ArrayRecord, ConfigRecord, MessageType, RecordDict

from fl_dp.federation.link import hub as hub_module
from fl_dp.federation.link import site_link
from fl_dp.federation.link.signed_message import SIGNED, Bearing
from fl_dp.federation.link.site_link import LinkRefusedError


def test_a_message_goes_there_and_its_answer_comes_back(federation: Federation) -> None:
    link = federation.joined("north")
    weights = ArrayRecord({"w": Array(np.arange(12, dtype=np.float32).reshape(3, 4))})
    message_id = federation.ask("north", content=RecordDict({"arrays": weights}))
    asked = link.next_message()
    assert asked is not None
    assert (asked.content["arrays"]["w"].numpy() == weights["w"].numpy()).all()
    assert SIGNED not in asked.content
    doubled = ArrayRecord({"w": Array(2 * weights["w"].numpy())})
    link.answer(asked, RecordDict({"arrays": doubled}))
    (reply,) = federation.grid.pull_messages([message_id])
    assert (reply.content["arrays"]["w"].numpy() == doubled["w"].numpy()).all()
    assert list(reply.content) == ["arrays"]
    assert reply.metadata.reply_to_message_id == message_id
    assert reply.metadata.src_node_id == federation.node("north")
    assert federation.hub.state.num_message_ins() == federation.hub.state.num_message_res() == 0
    assert not federation.hub.state.object_store.store  # type: ignore[attr-defined]


def test_each_site_gets_its_own_message(federation: Federation) -> None:
    links = {name: federation.joined(name) for name in ("north", "south")}
    for name in links:
        federation.ask(name, content=RecordDict({"plan": ConfigRecord({"for": name})}))
    for name, link in links.items():
        message = link.next_message()
        assert message is not None
        assert message.content["plan"]["for"] == name


def test_a_waiting_site_hears_at_once(federation: Federation) -> None:
    link = federation.joined("north")
    assert federation.grid.get_node_ids() == [federation.node("north")]
    thread = in_thread(lambda: (time.sleep(0.3), federation.ask("north")))
    begun = time.monotonic()
    assert link.next_message() is not None
    assert 0.25 < time.monotonic() - begun < 1.5  # of a request that waits for 2 s
    thread.join()


def test_a_site_that_joins_again_is_another_node_and_its_old_message_failed(federation: Federation) -> None:
    link = federation.joined("north")
    before = federation.node("north")
    message_id = federation.ask("north")
    assert link.next_message() is not None
    federation.joined("north")
    assert federation.node("north") != before
    (reply,) = federation.grid.pull_messages([message_id])
    assert reply.has_error()
    assert reply.error.reason == "site north is not there any more"


def test_a_silent_site_is_soon_not_waited_for(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_module, "SILENCE", 0.4)
    link = federation.joined("north")
    message_id = federation.ask("north")
    assert link.next_message() is not None
    time.sleep(0.5)
    (reply,) = federation.grid.pull_messages([message_id])
    assert reply.has_error()
    assert federation.grid.get_node_ids() == []


def test_an_answer_that_is_not_all_there_keeps_nobody_waiting(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, fast = federation.joined("north"), federation.joined("south")
    late, early = federation.ask("north"), federation.ask("south")
    asked = slow.next_message()
    assert asked is not None
    monkeypatch.setattr(slow._client, "PushObject", lambda request: None)
    slow.answer(asked, RecordDict({"report": ConfigRecord({"ok": True})}))
    other = fast.next_message()
    assert other is not None
    fast.answer(other, RecordDict({"report": ConfigRecord({"ok": True})}))
    (reply,) = federation.grid.pull_messages([late, early])
    assert reply.metadata.reply_to_message_id == early
    slow.leave()
    (reply,) = federation.grid.pull_messages([late])
    assert reply.has_error()


def test_an_answer_is_taken_once(federation: Federation) -> None:
    link = federation.joined("north")
    federation.ask("north")
    message = link.next_message()
    assert message is not None
    link.answer(message, RecordDict({"report": ConfigRecord({"ok": True})}))
    list(federation.grid.pull_messages([message.metadata.message_id]))
    with pytest.raises(LinkRefusedError, match="nobody waits") as refused:
        link.answer(message, RecordDict({"report": ConfigRecord({"ok": False})}))
    assert refused.value.is_late


def test_a_site_that_takes_anothers_name_is_not_heard(federation: Federation) -> None:
    link = federation.joined("north")
    for name, believed in (("south", False), ("north", True)):
        message_id = federation.ask("north", MessageType.QUERY)
        message = link.next_message()
        assert message is not None
        link.answer(message, RecordDict({"profile": ConfigRecord({"client": name})}))
        (reply,) = federation.grid.pull_messages([message_id])
        assert reply.has_content() == believed
        if not believed:
            assert reply.error.reason == "calls itself another client than its key's, north"


def unsigned(content: RecordDict, bearing: Bearing, key: Any) -> RecordDict:
    return content


def signed_by_another(federation: Federation) -> Any:
    from fl_dp.federation.link.signed_message import signed

    return lambda content, bearing, key: signed(content, bearing, federation.sites["south"].key)


@pytest.mark.parametrize("how", ["unsigned", "by another site"])
def test_an_answer_without_the_sites_signature_is_none(
    federation: Federation, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """TLS and the request's signature hold; the message's own does not."""
    link = federation.joined("north")
    forged = unsigned if how == "unsigned" else signed_by_another(federation)
    monkeypatch.setattr(site_link, "signed", forged)
    message_id = federation.ask("north")
    message = link.next_message()
    assert message is not None
    link.answer(message, RecordDict({"report": ConfigRecord({"ok": True})}))
    (reply,) = federation.grid.pull_messages([message_id])
    assert reply.has_error()
    assert "lacks the signature" in reply.error.reason


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("_src_node_id", 5),
        ("_dst_node_id", 5),
        ("_reply_to_message_id", "0" * 64),
        ("_group_id", "9"),
        ("_message_type", "query"),
        ("_run_id", 5),
    ],
)
def test_an_answer_that_is_another_inside_is_none(federation: Federation, name: str, value: Any) -> None:
    """The door checks what the request says; the objects may say otherwise."""
    link = federation.joined("north")
    message_id = federation.ask("north")
    message = link.next_message()
    assert message is not None
    push_raw(link, message, inner={name: value})
    (reply,) = federation.grid.pull_messages([message_id])
    assert reply.has_error()
    assert "another one inside" in reply.error.reason
    assert reply.metadata.reply_to_message_id == message_id  # what the strategy looks it up by


def test_objects_that_are_no_message_cost_one_answer(federation: Federation) -> None:
    link = federation.joined("north")
    message_id = federation.ask("north")
    message = link.next_message()
    assert message is not None
    push_raw(link, message, root=ConfigRecord({"no": "message"}))
    (reply,) = federation.grid.pull_messages([message_id])
    assert reply.has_error()
    assert "no message" in reply.error.reason
    assert federation.answer("north", link).has_content()  # and the next one is as good as ever


def test_an_honest_answer_passes_the_same_way(federation: Federation) -> None:
    """Else the tests above could pass for another reason."""
    link = federation.joined("north")
    message_id = federation.ask("north")
    message = link.next_message()
    assert message is not None
    push_raw(link, message)
    (reply,) = federation.grid.pull_messages([message_id])
    assert reply.has_content()
