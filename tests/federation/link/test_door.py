"""What a server's port answers, to whom."""

import ssl
import time
from contextlib import closing
from dataclasses import replace
from http.client import HTTPSConnection
from typing import Any

import pytest
from federation.link.wired import Federation, push_raw
from flwr.proto.fleet_pb2 import ActivateNodeRequest, DeactivateNodeRequest, PullMessagesRequest
from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest, PullObjectRequest, PushObjectRequest
from flwr.proto.node_pb2 import Node
from httpx import HTTPStatusError

from fl_dp.federation.link import door as door_module
from fl_dp.federation.link import signed_request
from fl_dp.federation.link.door import ROUTES
from fl_dp.federation.link.signed_request import sign_request
from fl_dp.kits.keys import SigningKey

FLEET = [f"/v1/fleet/{name}" for name in ROUTES]
# What Flower's SuperLink answers besides on the port that its nodes reach.
CLOSED = [
    "/v1/fleet/register-node",
    "/v1/fleet/unregister-node",
    "/v1/fleet/get-run",
    "/v1/fleet/get-fab",
    "/v1/control/start-run",
    "/v1/control/stop-run",
    "/v1/control/list-nodes",
    "/v1/control/register-node",
    "/v1/control/unregister-node",
    "/v1/runtime/acquire-task",
    "/v1/runtime/push-messages",
    "/v1/runtime/pull-messages",
    "/v1/runtime/pull-task-input",
    "/docs",
    "/openapi.json",
    "/health",
    "/",
    "",
]


def connection_to(federation: Federation) -> HTTPSConnection:
    """For anyone who has the public certificate."""
    trust = ssl.create_default_context(cadata=federation.server.roster.certificate)
    return HTTPSConnection("127.0.0.1", federation.port, context=trust, timeout=60)


def request(
    federation: Federation,
    path: str,
    body: bytes = b"",
    headers: dict[str, str] | None = None,
    method: str = "POST",
) -> tuple[int, str]:
    """The status and the words of the answer."""
    with closing(connection_to(federation)) as connection:
        connection.request(method, path or "/", body=body, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace")


def signed_by_north(
    federation: Federation, path: str, body: bytes = b"", method: str = "POST"
) -> dict[str, str]:
    kit = federation.sites["north"]
    return sign_request(kit.key, kit.roster.federation, method, path or "/", body)


def test_a_stranger_gets_one_answer_to_everything(federation: Federation) -> None:
    key = SigningKey.generate()
    for path in (*FLEET, *CLOSED):
        headers = sign_request(key, federation.hub.roster.federation, "POST", path or "/", b"")
        assert request(federation, path) == (401, "not signed"), path
        assert request(federation, path, headers=headers) == (401, "not a site of this federation"), path


def test_a_site_may_only_post_the_eight_requests(federation: Federation) -> None:
    others = [(FLEET[0], method) for method in ("GET", "PUT", "DELETE", "OPTIONS", "HEAD")]
    for path, method in (*((path, "POST") for path in CLOSED), *others):
        headers = signed_by_north(federation, path, method=method)
        status, words = request(federation, path, headers=headers, method=method)
        assert (status, words) == (404, "" if method == "HEAD" else "not served"), (path, method)


def test_a_signature_that_was_seen_on_the_way_is_worth_nothing(federation: Federation) -> None:
    key = bytes.fromhex(federation.sites["north"].key.public)
    body = ActivateNodeRequest(public_key=key, heartbeat_interval=10).SerializeToString()
    headers = signed_by_north(federation, FLEET[0], body)
    assert request(federation, FLEET[0], body, headers)[0] == 200
    node = federation.node("north")
    other = "a body other than the one that was signed"
    assert request(federation, FLEET[0], body, headers) == (401, "this request was answered before")
    assert request(federation, FLEET[0], body + b"\0", headers) == (401, other)
    assert request(federation, "/v1/fleet/deactivate-node", body, headers) == (401, "not signed")
    assert federation.node("north") == node


def test_refused_requests_are_security_events(federation, monkeypatch):
    """Telling a site that the run has ended is not such an event."""
    told: list[Any] = []
    monkeypatch.setattr(door_module, "security_event", lambda *words, **who: told.append((*words, who)))
    request(federation, FLEET[0])
    request(federation, "/else", headers=signed_by_north(federation, "/else"))
    federation.door.end(0.0)
    assert request(federation, FLEET[0], headers=signed_by_north(federation, FLEET[0]))[0] == 410
    here = {"source": "127.0.0.1"}
    assert told == [
        ("request refused", "not signed", here | {"who": "", "status": 401}),
        ("request refused", "not served", here | {"who": "north", "status": 404}),
    ]


def test_another_version_is_refused_in_words(federation: Federation, monkeypatch: pytest.MonkeyPatch) -> None:
    headers = signed_by_north(federation, FLEET[0]) | {"fl-dp-protocol": "1"}
    assert request(federation, FLEET[0], headers=headers) == (401, "not signed")
    with monkeypatch.context() as patched:
        patched.setattr(signed_request, "PROTOCOL", "1")
        headers = signed_by_north(federation, FLEET[0])
    words = "this server runs another version of fl_dp; install the same one"
    assert request(federation, FLEET[0], headers=headers) == (426, words)


def test_invalid_and_too_long_requests_are_refused(federation: Federation) -> None:
    """All but two requests are short, and Flower writes each out as a table before it looks at it."""
    for path in FLEET:
        most = ROUTES[path.removeprefix("/v1/fleet/")].most
        assert most <= 2**16 or path.endswith(("push-messages", "push-object"))
        for body, expected in ((b"\xff" * 40, 400), (b"\0" * (most + 1), 413)):
            headers = signed_by_north(federation, path, body)
            assert request(federation, path, body, headers)[0] == expected, path


def test_a_site_has_a_few_requests_under_way_and_others_are_not_touched(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each may hold MOST_BYTES of a body that never ends."""
    monkeypatch.setattr(door_module, "_MOST_AT_ONCE", 1)
    headers = signed_by_north(federation, FLEET[0], b"slow")
    with closing(connection_to(federation)) as connection:
        connection.putrequest("POST", FLEET[0])
        for name, value in {**headers, "content-length": "4"}.items():
            connection.putheader(name, value)
        connection.endheaders()
        while not federation.door._under_way.total():
            time.sleep(0.01)
        second = signed_by_north(federation, FLEET[0])
        assert request(federation, FLEET[0], b"", second) == (429, "too many requests at once")
        federation.joined("south")
        connection.send(b"slow")
        assert connection.getresponse().status == 400  # no message
    federation.joined("north")


def test_a_body_that_stops_coming_is_waited_for_no_longer_than_a_bound(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a site whose line has died keeps its requests under way, and can make no other."""
    monkeypatch.setattr(door_module, "BODY_SECONDS", 0.2)
    headers = signed_by_north(federation, FLEET[0], b"slow")
    with closing(connection_to(federation)) as connection:
        connection.putrequest("POST", FLEET[0])
        for name, value in {**headers, "content-length": "4"}.items():
            connection.putheader(name, value)
        connection.endheaders(b"sl")
        assert connection.getresponse().status == 408
    assert not federation.door._under_way.total()
    federation.joined("north")


def refused(call: Any, request: Any) -> tuple[int, str]:
    with pytest.raises(HTTPStatusError) as error:
        call(request)
    return error.value.response.status_code, error.value.response.text


def test_a_site_cannot_be_another_node(federation: Federation) -> None:
    """By Flower's signature, which covers only a time, it could."""
    federation.joined("north")
    south = federation.joined("south")
    client, other = south._client, Node(node_id=federation.node("north"))
    for call, message in (
        (client.PullMessages, PullMessagesRequest(node=other)),
        (client.DeactivateNode, DeactivateNodeRequest(node_id=other.node_id)),
        (client.PushObject, PushObjectRequest(node=other, run_id=federation.hub.run_id)),
        (client.PullMessages, PullMessagesRequest()),
    ):
        status, words = refused(call, message)
        assert (status, words.split(":")[0]) == (409, "not joined")
    key = bytes.fromhex(federation.site("north").key)
    status, _ = refused(client.ActivateNode, ActivateNodeRequest(public_key=key, heartbeat_interval=10))
    assert status == 400
    assert len(federation.hub.here()) == 2


def test_a_site_reads_only_its_own_messages(federation: Federation) -> None:
    federation.joined("north")
    south = federation.joined("south")
    message_id = federation.ask("north")
    client, named = south._client, {"node": south._node, "run_id": federation.hub.run_id}
    ids = list(federation.hub.state.object_store.store)  # type: ignore[attr-defined]
    assert message_id in ids
    for object_id in ids:
        assert refused(client.PullObject, PullObjectRequest(**named, object_id=object_id))[0] == 404
    confirm = ConfirmMessageReceivedRequest(**named, message_object_id=message_id)
    assert refused(client.ConfirmMessageReceived, confirm)[0] == 404
    assert message_id in federation.hub.state.object_store.store  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("lie", "status"),
    [
        ({"_src_node_id": 3}, 400),
        ({"_dst_node_id": 3}, 400),
        ({"_reply_to_message_id": "0" * 64}, 404),
        ({"_reply_to_message_id": ""}, 404),  # an instruction, in the server's name
        ({"_message_type": "query"}, 400),
        ({"_group_id": "9"}, 400),
        ({"_run_id": 3}, 400),
        ({"_created_at": 1.0}, 400),
        ({"_ttl": 1e300}, 400),
        ({"_message_id": "0" * 64}, 400),
    ],
)
def test_a_site_pushes_only_replies_to_its_own_messages(
    federation: Federation, lie: dict[str, Any], status: int
) -> None:
    link = federation.joined("north")
    message = federation.asked("north", link)
    assert refused(lambda outer: push_raw(link, message, outer=outer), lie)[0] == status
    assert federation.hub.state.num_message_res() == 0
    push_raw(link, message)  # the true one is still welcome
    assert federation.reply_to(message).has_content()


def test_a_site_cannot_answer_for_another(federation: Federation) -> None:
    north, south = federation.joined("north"), federation.joined("south")
    message = federation.asked("north", north)
    its_own = {"_src_node_id": south._node.node_id}
    assert refused(lambda outer: push_raw(south, message, outer=outer), its_own)[0] == 404


def test_a_site_that_was_left_out_since_is_refused_at_its_next_request(federation: Federation) -> None:
    link = federation.joined("south")
    roster = federation.hub.roster
    federation.hub.use(replace(roster, sites=(federation.site("north"),)))
    pull = PullMessagesRequest(node=link._node)
    assert refused(link._client.PullMessages, pull) == (401, "not a site of this federation")
    federation.hub.use(replace(roster, expires="2020-01-01T00:00:00+00:00"))
    status, words = refused(link._client.PullMessages, pull)
    assert (status, words.split(";")[0]) == (403, "the server's roster has expired")


def test_a_key_that_is_not_known_makes_it_look_for_a_newer_roster(federation: Federation) -> None:
    whole = federation.hub.roster
    federation.hub.use(replace(whole, sites=()))
    federation.door._refresh = lambda: federation.hub.use(whole)
    federation.joined("north")
    assert federation.hub.here()


def test_the_end_is_told_to_all_sites_present(federation: Federation) -> None:
    link = federation.joined("north")
    begun = time.monotonic()
    federation.door.end(0.05)
    assert time.monotonic() - begun >= 0.05  # it has not asked yet
    pull = PullMessagesRequest(node=link._node)
    assert refused(link._client.PullMessages, pull) == (410, "the run is over")
    begun = time.monotonic()
    federation.door.end(60)
    assert time.monotonic() - begun < 30
