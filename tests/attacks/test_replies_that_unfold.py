"""A site of the roster against the server and the other sites, by the objects that its replies consist of.

In Flower's store 2.4 KB of a tree took 0.7 s and 33 MiB to look at, twice as much for every level more;
children that never come kept another site's reply from being complete; one chunk named a million times
became 5 TB.
"""

import hashlib
import json
import time
from typing import Any

import numpy as np
import pytest
from federation.link.wired import Federation, push_raw
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, Metadata, RecordDict
from flwr.app.message import make_message
from flwr.common.serde import message_to_proto
from flwr.proto.fleet_pb2 import PushMessagesRequest
from flwr.proto.message_pb2 import ObjectTree, PushObjectRequest
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from httpx import HTTPStatusError

from fl_dp.federation.link.upload import Room, Upload

REPORT = ConfigRecord({"ok": True})


def name(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()


def asked(federation: Federation, site: str) -> tuple[Any, Message]:
    link = federation.joined(site)
    federation.ask(site)
    message = link.next_message()
    assert message is not None
    return link, message


def push(link: Any, message: Message, tree: ObjectTree) -> Any:
    """Say that the reply to `message` is this tree."""
    known = message.metadata
    said = Metadata(
        run_id=known.run_id,
        message_id=tree.object_id,
        src_node_id=known.dst_node_id,
        dst_node_id=1,
        reply_to_message_id=known.message_id,
        group_id=known.group_id,
        created_at=known.created_at,
        ttl=known.ttl,
        message_type=known.message_type,
    )
    bare = message_to_proto(make_message(metadata=said, content=RecordDict()))
    return link._client.PushMessages(
        PushMessagesRequest(node=link._node, messages_list=[bare], message_object_trees=[tree])
    )


def test_a_tree_that_names_each_level_twice_costs_the_server_nothing(linked: Federation) -> None:
    link, message = asked(linked, "north")
    tree = ObjectTree(object_id=name(0))
    for level in range(1, 60):
        tree = ObjectTree(object_id=name(level), children=[tree, ObjectTree(object_id=tree.object_id)])
    push(link, message, tree)
    begun = time.monotonic()
    assert list(linked.grid.pull_messages([message.metadata.message_id])) == []
    assert time.monotonic() - begun < 1
    assert linked.answer("south", linked.joined("south")).has_content()


def test_a_tree_of_too_many_nodes_is_refused(linked: Federation) -> None:
    link, message = asked(linked, "north")
    children = [ObjectTree(object_id=name(one)) for one in range(3000)]
    with pytest.raises(HTTPStatusError) as error:
        push(link, message, ObjectTree(object_id=name(-1), children=children))
    assert error.value.response.status_code == 413


def test_what_a_site_says_of_anothers_objects_does_not_hold_for_them(linked: Federation) -> None:
    """South's report can be guessed; north says that it has a child, which never comes."""
    north, message = asked(linked, "north")
    false = ObjectTree(object_id=REPORT.object_id, children=[ObjectTree(object_id=name(1))])
    push(north, message, ObjectTree(object_id=name(2), children=[false]))
    south = linked.joined("south")
    assert linked.answer("south", south, RecordDict({"report": REPORT})).has_content()


def test_nothing_of_a_reply_that_is_pushed_again_and_again_stays(linked: Federation) -> None:
    link, message = asked(linked, "north")
    for one in range(20):
        push(link, message, ObjectTree(object_id=name(0), children=[ObjectTree(object_id=name(100 + one))]))
    assert len(linked.hub._uploads) == 1
    assert not linked.hub.state.object_store.store  # type: ignore[attr-defined]
    push_raw(link, message)
    (reply,) = linked.grid.pull_messages([message.metadata.message_id])
    assert reply.has_content()
    assert not linked.hub._uploads
    assert not linked.hub._rooms


def test_there_is_no_room_for_more_than_a_reply_takes(
    linked: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    link, message = asked(linked, "north")
    monkeypatch.setattr(linked.hub, "room", lambda message_id: Room(10, 1000))
    content = b"0" * 1001
    tree = ObjectTree(object_id=hashlib.sha256(content).hexdigest())
    session = push(link, message, tree).session_id
    request = PushObjectRequest(
        node=link._node,
        run_id=message.metadata.run_id,
        session_id=session,
        object_id=tree.object_id,
        object_content=content,
    )
    with pytest.raises(HTTPStatusError) as error:
        link._client.PushObject(request)
    assert error.value.response.status_code == 400


def uploaded(root: Any, replace: dict[str, bytes], size: int) -> Upload:
    objects = {key: one.deflate() for key, one in get_all_nested_objects(root).items()} | replace
    return Upload(1, "s", root.object_id, frozenset(objects), Room(100, size), contents=objects)


def many_chunks(times: int) -> tuple[ArrayRecord, dict[str, bytes]]:
    """A record whose array names its one chunk so often."""
    record = ArrayRecord({"w": Array(np.zeros(1000, np.float32))})
    array = record["w"]
    head, _, body = array.deflate().partition(b"\0")
    said = json.dumps({**json.loads(body), "arraychunk_ids": [0] * times}).encode()
    kind, children, _ = head.decode().split(" ")
    return record, {array.object_id: f"{kind} {children} {len(said)}".encode() + b"\0" + said}


def test_one_chunk_that_is_named_many_times_is_not_unfolded() -> None:
    record, lie = many_chunks(3000)
    with pytest.raises(ValueError, match="larger than the reply may be"):
        uploaded(record, lie, 1_000_000).whole()


def test_an_array_of_arrays_is_not_unfolded() -> None:
    record, _ = many_chunks(1)
    array = record["w"]
    body = json.dumps({"arraychunk_ids": [0] * 9}).encode()
    nested = f"Array {array.object_id} {len(body)}".encode() + b"\0" + body
    with pytest.raises(ValueError, match="not chunks"):
        uploaded(record, {hashlib.sha256(nested).hexdigest(): nested}, 1_000_000).whole()


def test_a_reply_may_be_as_large_as_what_was_asked() -> None:
    weights = ArrayRecord({"w": Array(np.zeros(10_000_000, np.float32))})
    room = Room.of_reply_to(RecordDict({"arrays": weights, "plan": REPORT}))
    assert room.size > 40_000_000
    assert len(get_all_nested_objects(weights)) < room.parts
