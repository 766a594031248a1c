"""Everything that a server's port answers: eight requests of Flower's Fleet API, from sites of the roster.

Each request is signed by its site, for one use. The nodes, runs and messages in it are checked against the
signer before Flower's handler sees it. A sender that is not in the roster gets the same answer to everything.
"""

import asyncio
import json
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from flwr.common.constant import SUPERLINK_NODE_ID
from flwr.proto.fleet_pb2 import (
    ActivateNodeRequest,
    ActivateNodeResponse,
    DeactivateNodeRequest,
    DeactivateNodeResponse,
    PullMessagesRequest,
    PullMessagesResponse,
    PushMessagesRequest,
    PushMessagesResponse,
)
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest, SendNodeHeartbeatResponse
from flwr.proto.message_pb2 import (
    ConfirmMessageReceivedRequest,
    ConfirmMessageReceivedResponse,
    PullObjectRequest,
    PullObjectResponse,
    PushObjectRequest,
    PushObjectResponse,
)
from flwr.supercore.error import FlowerError
from flwr.superlink.servicer.fleet import fleet_handlers
from google.protobuf.message import DecodeError
from google.protobuf.message import Message as Proto

from fl_dp.federation.link.hub import Hub, asked_of
from fl_dp.federation.link.signed_request import (
    DIGEST,
    NONCE,
    PROTOCOL,
    SPOKEN,
    RequestCheck,
    RequestRefusedError,
    digest_of,
)
from fl_dp.federation.link.upload import object_ids
from fl_dp.federation.security import security_event
from fl_dp.kits.roster import Site

logger = logging.getLogger("fl_dp")

BODY_SECONDS = 30.0  # of silence within a body: the connection may be dead
LONG_POLL = 2.0  # seconds that a site waits for a message in one request
MOST_BYTES = 32 * 2**20  # of a request; Flower cuts arrays into objects of 5 MiB
_MOST_TREE = 8 * 2**20  # bytes of a reply's tree of objects, 70 for each
_MOST_AT_ONCE = 8  # requests of one site: one at a time, and those of a lost connection
_POLL_SECONDS = 0.02
_QUIET_SECONDS = 60.0  # between two log lines about one site's joining and leaving
_PREFIX = "/v1/fleet/"
_TYPE = b"application/x-protobuf"
_OVER = 410

Handler = Callable[["Door", Site, Any], Awaitable[Proto]]


@dataclass(frozen=True, slots=True)
class _Route:
    """most: bytes of a request."""

    request: type[Proto]
    handle: Handler
    most: int = 2**16


class Door:
    """An ASGI application. hub: the run's. refresh: looks for a newer roster; called for unknown keys."""

    def __init__(self, hub: Hub, refresh: Callable[[], None] = lambda: None) -> None:
        self.hub = hub
        self._over = False
        self._told: set[str] = set()  # keys of sites that were told that the run is over
        self._refresh = refresh
        self._check = RequestCheck(hub.roster.federation)
        self._under_way: Counter[str] = Counter()  # running requests, by the site's key
        # by the site's key: when its last line was logged, and how many were left out since
        self._logged: dict[str, tuple[float, int]] = {}

    def end(self, seconds: float) -> None:
        """Tell the sites that the run is over; wait at most `seconds` until all that are there know it."""
        here = {node: site for node in self.hub.here() if (site := self.hub.site_of(node)) is not None}
        self._over = True
        self.hub.ring(set(here))
        deadline = time.monotonic() + seconds
        while not {site.key for site in here.values()} <= self._told and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return  # no web sockets; uvicorn then closes the connection
        self.hub.loop = asyncio.get_running_loop()
        body = _Body(receive)
        try:
            answer = await self._answer(scope, body)
        except RequestRefusedError as refused:
            _note(refused, scope)
            unread = None if body.is_over else scope.get("state", {}).get("cut")
            await _reply(send, refused.status, b"text/plain", refused.reason.encode(), cut=unread)
        else:
            await _reply(send, 200, _TYPE, answer.SerializeToString())

    async def _answer(self, scope: Any, body: "_Body") -> Proto:
        headers = {key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]}
        method, path = scope["method"], scope["path"]
        site = self._site(method, path, headers)
        scope["site"] = site.name
        if headers.get(SPOKEN) != PROTOCOL:
            raise RequestRefusedError(426, "this server runs another version of fl_dp; install the same one")
        if self._over:
            self._told.add(site.key)
            raise RequestRefusedError(_OVER, "the run is over")
        route = ROUTES.get(path.removeprefix(_PREFIX)) if path.startswith(_PREFIX) else None
        if route is None or method != "POST":
            raise RequestRefusedError(404, "not served")
        if self._under_way[site.key] >= _MOST_AT_ONCE:
            raise RequestRefusedError(429, "too many requests at once")
        self._under_way[site.key] += 1
        try:
            content = await body.whole(headers, route.most)
            self._check.take(site.key, headers[NONCE])
            if signed := scope.get("state", {}).get("signed"):
                signed(site.key)
            return await route.handle(self, site, route.request.FromString(content))
        except DecodeError:
            raise RequestRefusedError(400, "not the expected message") from None
        finally:
            self._under_way[site.key] -= 1

    def _site(self, method: str, path: str, headers: Mapping[str, str]) -> Site:
        """The site that signed the request; RequestRefusedError unless its key is in the roster."""
        key = self._check.signer(method, path, headers)
        site = self.hub.roster.site_of(key)
        if site is None or self.hub.roster.is_over():
            self._refresh()
            site = self.hub.roster.site_of(key)
        if site is None:
            raise RequestRefusedError(401, "not a site of this federation")
        if self.hub.roster.is_over():
            raise RequestRefusedError(403, "the server's roster has expired; ask the authority for a new one")
        return site

    def own_node(self, site: Site, node: int, run_id: int | None = None) -> int:
        """The node, noted as heard; RequestRefusedError unless it is the site's, and `run_id` the run's."""
        if node == 0 or self.hub.node_of(site) != node:
            raise RequestRefusedError(
                409, "not joined: the site has joined again since, or was silent too long"
            )
        self.hub.is_heard(node)
        if run_id not in (None, self.hub.run_id):
            raise RequestRefusedError(400, "another run")
        return node

    def log(self, site: Site, words: str) -> None:
        """Log that the site joined or left, at most one line a minute for each site."""
        when, untold = self._logged.get(site.key, (-_QUIET_SECONDS, 0))
        if time.monotonic() - when < _QUIET_SECONDS:
            self._logged[site.key] = when, untold + 1
            return
        self._logged[site.key] = time.monotonic(), 0
        logger.info("site %s %s%s", site.name, words, f" ({untold} lines left out)" if untold else "")


async def _activate(door: Door, site: Site, request: ActivateNodeRequest) -> Proto:
    if request.public_key != bytes.fromhex(site.key):
        raise RequestRefusedError(400, "a key other than the one that signed")
    node = door.hub.join(site)
    door.log(site, f"has joined as node {node}")
    return ActivateNodeResponse(node_id=node)


async def _deactivate(door: Door, site: Site, request: DeactivateNodeRequest) -> Proto:
    door.own_node(site, request.node_id)
    door.hub.leave(site)
    door.log(site, "has left")
    return DeactivateNodeResponse()


async def _heartbeat(door: Door, site: Site, request: SendNodeHeartbeatRequest) -> Proto:
    door.own_node(site, request.node.node_id)
    return SendNodeHeartbeatResponse(success=True)


async def _pull(door: Door, site: Site, request: PullMessagesRequest) -> Proto:
    """Wait at most LONG_POLL seconds for a message to the site's node."""
    node = door.own_node(site, request.node.node_id)
    bell = door.hub.bell(node)
    if bell is None:
        raise RequestRefusedError(409, "not joined")
    bell.clear()
    pull = fleet_handlers.pull_messages, request, door.hub.state, door.hub.state.object_store
    found = await _by_flower(*pull)
    if not found.messages_list:
        try:
            await asyncio.wait_for(bell.wait(), LONG_POLL)
        except TimeoutError:
            return PullMessagesResponse()
        found = await _by_flower(*pull)
    for tree in found.message_object_trees:
        door.hub.let_read(node, tree)
    return found


async def _push(door: Door, site: Site, request: PushMessagesRequest) -> Proto:
    """Accept a reply, only to a message that was sent to this node."""
    door.own_node(site, request.node.node_id)
    if len(request.messages_list) != 1 or len(request.message_object_trees) != 1:
        raise RequestRefusedError(400, "expected one reply")
    said = request.messages_list[0].metadata
    node = door.own_node(site, request.node.node_id, said.run_id)
    asked = asked_of(door.hub.state, said.reply_to_message_id)
    if asked is None or asked.metadata.dst_node_id != node:
        raise RequestRefusedError(404, "this reply is no longer awaited")
    answered = {
        "src_node_id": node,
        "dst_node_id": SUPERLINK_NODE_ID,
        "message_type": asked.metadata.message_type,
        "group_id": asked.metadata.group_id,
        "created_at": asked.metadata.created_at,
        "ttl": asked.metadata.ttl,
    }
    wrong = [name for name, value in answered.items() if getattr(said, name) != value]
    if wrong or request.messages_list[0].HasField("error"):
        raise RequestRefusedError(400, f"a reply with a wrong {', '.join(wrong) or 'content'}")
    if said.message_id != request.message_object_trees[0].object_id:
        raise RequestRefusedError(400, "a reply with objects of another message")
    wanted = object_ids(request.message_object_trees[0], door.hub.room(said.reply_to_message_id).parts)
    if wanted is None:
        raise RequestRefusedError(413, "a reply with too many objects")
    upload = door.hub.begin_upload(said.reply_to_message_id, node, said.message_id, wanted)
    return PushMessagesResponse(
        results={said.message_id: 0}, objects_to_push=upload.missing(), session_id=upload.session
    )


async def _push_object(door: Door, site: Site, request: PushObjectRequest) -> Proto:
    node = door.own_node(site, request.node.node_id, request.run_id)
    if not door.hub.store(request.session_id, node, request.object_id, request.object_content):
        raise RequestRefusedError(400, "not an object of this site's reply, or too large for one")
    return PushObjectResponse(stored=True)


async def _pull_object(door: Door, site: Site, request: PullObjectRequest) -> Proto:
    node = door.own_node(site, request.node.node_id, request.run_id)
    if not door.hub.may_read(node, request.object_id):
        raise RequestRefusedError(404, "not an object of this site's message")
    response: PullObjectResponse = await _by_flower(fleet_handlers.pull_object, request, door.hub.state)
    return response


async def _confirm(door: Door, site: Site, request: ConfirmMessageReceivedRequest) -> Proto:
    node = door.own_node(site, request.node.node_id, request.run_id)
    if not door.hub.may_read(node, request.message_object_id):
        raise RequestRefusedError(404, "not this site's message")
    door.hub.confirm(node, request.message_object_id)
    return ConfirmMessageReceivedResponse()


ROUTES: dict[str, _Route] = {
    "activate-node": _Route(ActivateNodeRequest, _activate),
    "deactivate-node": _Route(DeactivateNodeRequest, _deactivate),
    "send-node-heartbeat": _Route(SendNodeHeartbeatRequest, _heartbeat),
    "pull-messages": _Route(PullMessagesRequest, _pull),
    "push-messages": _Route(PushMessagesRequest, _push, _MOST_TREE),
    "push-object": _Route(PushObjectRequest, _push_object, MOST_BYTES),
    "pull-object": _Route(PullObjectRequest, _pull_object),
    "confirm-message-received": _Route(ConfirmMessageReceivedRequest, _confirm),
}


async def _by_flower(handler: Callable[..., Any], *arguments: Any) -> Any:
    """The answer of one of Flower's handlers, run in another thread.

    Flower may raise anything on a site's bytes; that ends only this request.
    """
    try:
        return await asyncio.to_thread(handler, *arguments)
    except FlowerError as error:
        raise RequestRefusedError(400, f"Flower refuses it: {json.dumps(str(error.message))[:200]}") from None
    except Exception as error:
        logger.warning("a site's request failed in %s: %r", handler.__name__, error)
        raise RequestRefusedError(400, "it cannot be handled") from None


class _Body:
    """A request's body. is_over: whether all of it has arrived."""

    def __init__(self, receive: Any) -> None:
        self.is_over = False
        self._receive = receive

    async def whole(self, headers: Mapping[str, str], most: int) -> bytes:
        """The body; RequestRefusedError if it is too long, stalls, or is not the one that was signed."""
        parts, length = [], 0
        while not self.is_over:
            try:
                event = await asyncio.wait_for(self._receive(), BODY_SECONDS)
            except TimeoutError:
                raise RequestRefusedError(408, "the rest of its body did not arrive") from None
            if event["type"] != "http.request":
                raise RequestRefusedError(400, "it was cut off")
            parts.append(event.get("body", b""))
            length += len(parts[-1])
            if length > most:
                raise RequestRefusedError(413, f"more than {most} bytes in such a request")
            self.is_over = not event.get("more_body")
        body = b"".join(parts)
        if digest_of(body) != headers.get(DIGEST):
            raise RequestRefusedError(401, "a body other than the one that was signed")
        return body


def _note(refused: RequestRefusedError, scope: Any) -> None:
    if refused.status != _OVER:  # every site of a run is told that
        source = (scope.get("client") or ("",))[0]
        who = scope.get("site", "")
        security_event("request refused", refused.reason, who=who, source=source, status=refused.status)


async def _reply(
    send: Any, status: int, kind: bytes, body: bytes, *, cut: Callable[[], Awaitable[None]] | None = None
) -> None:
    """Send a response. cut: ends the connection; without it the rest of the request's body would be read."""
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
    if status == 401 or cut is not None:
        headers.append((b"connection", b"close"))  # a stranger gets no second request on a connection
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": cut is not None})
    if cut is not None:
        await cut()
