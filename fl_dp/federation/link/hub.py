"""Flower's state of one run in this process, and which site each of its nodes is.

Flower's SuperLink keeps the same state and lets anybody who reaches its port change it. Here it has two
users: the door, for sites, and the grid, for the server's own strategy.
"""

import asyncio
import secrets
import threading
import time
from dataclasses import dataclass, field

from flwr.app import Message
from flwr.common.constant import NOOP_ACCOUNT_NAME, NOOP_FLWR_AID
from flwr.proto.message_pb2 import ObjectTree
from flwr.supercore.constant import NOOP_FEDERATION_ID, TaskType
from flwr.supercore.inflatable.inflatable_object import iterate_object_tree

from fl_dp.federation.link.steady_state import FOR_EVER, SteadyLinkState
from fl_dp.federation.link.upload import Room, Upload
from fl_dp.kits.roster import Roster, Site

SILENCE = 12.0  # seconds without a request, after which a site is not there any more
_NODE_BYTES = 8


@dataclass(slots=True)
class _Presence:
    """A node of a site, from one joining to the next. readable: the objects of messages to it.

    heard: when its last request came, by the monotonic clock.
    """

    site: Site
    heard: float
    readable: set[str] = field(default_factory=set)
    bell: asyncio.Event = field(default_factory=asyncio.Event)


class Hub:
    """Everything between the door and the grid. Its methods may be called from any thread.

    A node is new whenever its site joins: what the site was asked before that is lost, and is known to be.
    """

    def __init__(self, roster: Roster) -> None:
        self.state = SteadyLinkState()
        self.run_id = _running(self.state)
        self.roster = roster
        self.loop: asyncio.AbstractEventLoop | None = None  # of the door
        self._nodes: dict[str, int] = {}  # by the site's key
        self._here: dict[int, _Presence] = {}
        self._rooms: dict[str, Room] = {}  # of the reply to each message that was asked
        self._uploads: dict[str, Upload] = {}  # by the message that is answered
        self._left: dict[str, int] = {}  # by the site's key: the node before; what it answered still counts
        self.storing = threading.RLock()  # held while objects of messages are stored, or deleted
        self._lock = threading.RLock()

    def site_of(self, node: int) -> Site | None:
        """The site that the node is."""
        with self._lock:
            presence = self._here.get(node)
        return None if presence is None else presence.site

    def node_of(self, site: Site) -> int | None:
        """The site's node; None before it has joined."""
        with self._lock:
            return self._nodes.get(site.key)

    def join(self, site: Site) -> int:
        """Give the site a new node, in the place of the one that it had."""
        with self._lock:
            self.leave(site)
            public = bytes.fromhex(site.key) + secrets.token_bytes(_NODE_BYTES)  # Flower knows each key once
            node = self.state.create_node(NOOP_FLWR_AID, NOOP_ACCOUNT_NAME, public, FOR_EVER)
            self.state.activate_node(node, FOR_EVER)
            self._nodes[site.key] = node
            self._here[node] = _Presence(site, time.monotonic())
            return node

    def leave(self, site: Site) -> None:
        """Take the site's node away, if it has one: what it was asked is not waited for."""
        with self._lock:
            node = self._nodes.pop(site.key, None)
            if node is not None:
                del self._here[node]
                before, self._left[site.key] = self._left.get(site.key), node
                self._uploads = {
                    key: one
                    for key, one in self._uploads.items()
                    if one.node != before and (one.node != node or one.is_complete())
                }
                self.state.deactivate_node(node)
                self.state.delete_node(NOOP_FLWR_AID, node)
                _forget(self.state, node)

    def use(self, roster: Roster) -> None:
        """Go on with a newer roster: sites that it does not have are no longer there."""
        with self._lock:
            before, self.roster = self.roster, roster
            for site in before.sites:
                if roster.site_of(site.key) != site:
                    self.leave(site)

    def here(self) -> list[int]:
        """The nodes whose sites are there now."""
        with self._lock:
            return [node for node in self._here if self.is_here(node)]

    def is_here(self, node: int) -> bool:
        """Whether the node's site has sent a request lately."""
        with self._lock:
            presence = self._here.get(node)
        return presence is not None and time.monotonic() - presence.heard < SILENCE

    def is_heard(self, node: int) -> None:
        """Note that the node's site has just sent a request."""
        with self._lock:
            if node in self._here:
                self._here[node].heard = time.monotonic()

    def bell(self, node: int) -> asyncio.Event | None:
        """Rings when there is a message for the node; None: it is not there."""
        with self._lock:
            presence = self._here.get(node)
        return None if presence is None else presence.bell

    def ring(self, nodes: set[int]) -> None:
        """Tell the nodes that are waiting that there is a message."""
        with self._lock:
            bells = [self._here[node].bell for node in nodes if node in self._here]
        if self.loop is not None:
            for bell in bells:
                self.loop.call_soon_threadsafe(bell.set)

    def let_read(self, node: int, tree: ObjectTree) -> None:
        """Let the node fetch the objects of a message that it was given."""
        with self._lock:
            if node in self._here:
                self._here[node].readable |= {part.object_id for part in iterate_object_tree(tree)}

    def may_read(self, node: int, object_id: str) -> bool:
        with self._lock:
            return node in self._here and object_id in self._here[node].readable

    def forget_read(self, node: int) -> None:
        """The node has all that it was given."""
        with self._lock:
            if node in self._here:
                self._here[node].readable.clear()

    def expect(self, message_id: str, room: Room) -> None:
        """Let the message be answered, by a reply that takes no more than `room`."""
        with self._lock:
            self._rooms[message_id] = room

    def room(self, message_id: str) -> Room:
        with self._lock:
            return self._rooms.get(message_id, Room())

    def begin_upload(self, message_id: str, node: int, root: str, wanted: frozenset[str]) -> Upload:
        """Let the node, and no other, send the objects of its reply to the message: one reply at a time."""
        with self._lock:
            begun = self._uploads.get(message_id)
            if begun is not None and begun.node == node and begun.is_complete():
                return begun  # sent before: the first one counts
            self._uploads = {
                key: one for key, one in self._uploads.items() if one.node != node or one.is_complete()
            }
            upload = Upload(node, secrets.token_hex(16), root, wanted, self.room(message_id))
            self._uploads[message_id] = upload
            return upload

    def store(self, session: str, node: int, object_id: str, content: bytes) -> bool:
        """Keep an object of the node's reply; False if it is none, or too large."""
        with self._lock:
            for upload in self._uploads.values():
                if upload.session == session and upload.node == node:
                    return upload.take(object_id, content)
        return False

    def answered(self, message_id: str) -> Upload | None:
        """The reply to the message, once it is all there."""
        with self._lock:
            upload = self._uploads.get(message_id)
        return upload if upload is not None and upload.is_complete() else None

    def close(self, message_id: str) -> None:
        """Nobody waits for an answer to the message any more: nothing of it stays."""
        with self._lock:
            self._uploads.pop(message_id, None)
            self._rooms.pop(message_id, None)
        with self.storing:
            self.state.forget(message_id)
            self.state.object_store.delete(message_id)

    def confirm(self, message_id: str) -> None:
        """The message's site has all of it: its objects need not be kept."""
        with self.storing:
            self.state.object_store.delete(message_id)


def asked_of(state: SteadyLinkState, message_id: str) -> Message | None:
    """The message of that id, if the server has asked it and no reply was taken yet."""
    return state.message_ins_store.get(message_id)


def _forget(state: SteadyLinkState, node: int) -> None:
    """Flower keeps each node for ever, and looks at all of them again and again."""
    known = state.nodes.pop(node)
    state.node_public_key_to_node_id.pop(known.public_key, None)
    state.owner_to_node_ids[known.owner_aid].discard(node)


def _running(state: SteadyLinkState) -> int:
    """A run that is under way. Its token would expire; nobody has it, as no Runtime API is served."""
    run_id = state.create_run("", "", "", {}, NOOP_FEDERATION_ID, None, NOOP_FLWR_AID, TaskType.SERVER_APP)
    task = state.get_run_info(run_ids=[run_id])[0].primary_task_id
    assert task is not None
    state.claim_task(task)
    state.activate_task(task)
    for kept in (state.task_token_store, state.task_token_to_task_id):
        kept.clear()
    return run_id
