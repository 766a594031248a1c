"""Flower's state of one run, in this process, and the site behind each node.

Flower's SuperLink keeps the same state, but anybody who reaches its port can change it. Here only the door,
for sites, and the grid, for the server's own strategy, use it.
"""

import asyncio
import secrets
import threading
import time
from dataclasses import dataclass, field
from importlib.metadata import version

from flwr.app import Message
from flwr.common.constant import NOOP_ACCOUNT_NAME, NOOP_FLWR_AID
from flwr.proto.message_pb2 import ObjectTree
from flwr.server.superlink.linkstate.in_memory_linkstate import InMemoryLinkState
from flwr.supercore.constant import NOOP_FEDERATION_ID, TaskType
from flwr.supercore.inflatable.inflatable_object import iterate_object_tree
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.superlink.federation import NoOpFederationManager

from fl_dp.errors import ConfigError
from fl_dp.federation.link.upload import Room, Upload
from fl_dp.kits.roster import Roster, Site

SILENCE = 12.0  # seconds without a request after which a site counts as gone
_NODE_BYTES = 8
CHECKED = ("1.42.0",)  # versions of Flower that were reviewed, and tested, with the overrides here
FOR_EVER = 1e9  # seconds; the hub decides who is there, so that for Flower no site is ever late


class SteadyLinkState(InMemoryLinkState):
    """Flower's state of a run, but a message expires when its ttl has passed by the monotonic clock.

    Flower uses the wall clock. If it is set forward by more than a message's ttl, or by more than a site may
    be silent, Flower drops messages that sites are answering and paying for.
    """

    def __init__(self) -> None:
        _check_version(version("flwr"))
        super().__init__(NoOpFederationManager(), ObjectStoreFactory().store())
        self._until: dict[str, float] = {}  # by message

    def store_message_ins(self, message: Message) -> str | None:
        stored = super().store_message_ins(message)
        if stored is not None:
            self._until[stored] = time.monotonic() + message.metadata.ttl
        return stored

    def forget(self, message_id: str) -> None:
        """Delete the message: nobody waits for an answer any more."""
        self.delete_messages({message_id})
        self._until.pop(message_id, None)

    def is_over(self, message_id: str) -> bool:
        """Whether nobody waits for an answer to the message: it has expired, or it was forgotten."""
        until = self._until.get(message_id)
        return until is None or until <= time.monotonic()

    def overdue(self) -> list[str]:
        return [one for one in list(self._until) if self.is_over(one)]

    def _check_stored_messages(self, message_ids: set[str], run_id: int | None = None) -> None:
        """Replaces Flower's check by the wall clock, before it hands a message out."""
        self.delete_messages({one for one in message_ids if self.is_over(one)})


def _check_version(found: str) -> None:
    """ConfigError for another version of Flower, which may not call what is overridden here."""
    if found not in CHECKED:
        raise ConfigError(
            f"Flower {found}: this fl_dp was checked only with {', '.join(CHECKED)}; install that: "
            f"pip install flwr=={CHECKED[-1]}."
        )


@dataclass(slots=True)
class _Presence:
    """A site's node, from one joining to the next.

    readable: the objects of messages to it. heard: when its last request came, by the monotonic clock.
    """

    site: Site
    heard: float
    readable: set[str] = field(default_factory=set)
    bell: asyncio.Event = field(default_factory=asyncio.Event)


class Hub:
    """What the door and the grid share. All methods are thread-safe.

    Each time a site joins it gets a new node. Requests to its old node are then known to be lost.
    """

    def __init__(self, roster: Roster) -> None:
        self.state = SteadyLinkState()
        self.run_id = _running(self.state)
        self.roster = roster
        self.loop: asyncio.AbstractEventLoop | None = None  # the door's
        self._nodes: dict[str, int] = {}  # by the site's key
        self._here: dict[int, _Presence] = {}
        self._rooms: dict[str, Room] = {}  # by message id, the room for its reply
        self._uploads: dict[str, Upload] = {}  # by the id of the message that is answered
        self._left: dict[str, int] = {}  # by the site's key: its node before, whose replies still count
        self.storing = threading.RLock()  # held while objects of messages are stored or deleted
        self._lock = threading.RLock()

    def site_of(self, node: int) -> Site | None:
        """The site behind the node; None if the node is gone."""
        presence = self._presence(node)
        return None if presence is None else presence.site

    def _presence(self, node: int) -> _Presence | None:
        with self._lock:
            return self._here.get(node)

    def node_of(self, site: Site) -> int | None:
        """The site's node; None before it has joined."""
        with self._lock:
            return self._nodes.get(site.key)

    def join(self, site: Site) -> int:
        """Give the site a new node, which replaces its old one."""
        with self._lock:
            self.leave(site)
            public = bytes.fromhex(site.key) + secrets.token_bytes(_NODE_BYTES)  # Flower knows each key once
            node = self.state.create_node(NOOP_FLWR_AID, NOOP_ACCOUNT_NAME, public, FOR_EVER)
            self.state.activate_node(node, FOR_EVER)
            self._nodes[site.key] = node
            self._here[node] = _Presence(site, time.monotonic())
            return node

    def leave(self, site: Site) -> None:
        """Remove the site's node, if it has one; nobody waits for its replies any more."""
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
        """Switch to a newer roster; sites that are not in it lose their nodes."""
        with self._lock:
            before, self.roster = self.roster, roster
            for site in before.sites:
                if roster.site_of(site.key) != site:
                    self.leave(site)

    def here(self) -> list[int]:
        """The nodes whose sites are there now, see `is_here`."""
        with self._lock:
            return [node for node in self._here if self.is_here(node)]

    def is_here(self, node: int) -> bool:
        """Whether the node's site has sent a request within the last SILENCE seconds."""
        presence = self._presence(node)
        return presence is not None and time.monotonic() - presence.heard < SILENCE

    def is_heard(self, node: int) -> None:
        if presence := self._presence(node):
            presence.heard = time.monotonic()

    def bell(self, node: int) -> asyncio.Event | None:
        """An event that is set when there is a message for the node; None if the node is gone."""
        presence = self._presence(node)
        return None if presence is None else presence.bell

    def ring(self, nodes: set[int]) -> None:
        """Wake the requests of these nodes that wait for a message."""
        with self._lock:
            bells = [self._here[node].bell for node in nodes if node in self._here]
        if self.loop is not None:
            for bell in bells:
                self.loop.call_soon_threadsafe(bell.set)

    def let_read(self, node: int, tree: ObjectTree) -> None:
        with self._lock:
            if node in self._here:
                self._here[node].readable |= {part.object_id for part in iterate_object_tree(tree)}

    def may_read(self, node: int, object_id: str) -> bool:
        with self._lock:
            return node in self._here and object_id in self._here[node].readable

    def expect(self, message_id: str, room: Room) -> None:
        """Allow a reply to the message that takes no more than `room`."""
        with self._lock:
            self._rooms[message_id] = room

    def room(self, message_id: str) -> Room:
        with self._lock:
            return self._rooms.get(message_id, Room())

    def begin_upload(self, message_id: str, node: int, root: str, wanted: frozenset[str]) -> Upload:
        """Let the node, and no other, send the objects of its reply to the message, one reply at a time."""
        with self._lock:
            begun = self._uploads.get(message_id)
            if begun is not None and begun.node == node and begun.is_complete():
                return begun  # already sent; the first reply counts
            self._uploads = {
                key: one for key, one in self._uploads.items() if one.node != node or one.is_complete()
            }
            upload = Upload(node, secrets.token_hex(16), root, wanted, self.room(message_id))
            self._uploads[message_id] = upload
            return upload

    def store(self, session: str, node: int, object_id: str, content: bytes) -> bool:
        """Keep an object of the node's reply; False if it does not belong to it, or is too large."""
        with self._lock:
            for upload in self._uploads.values():
                if upload.session == session and upload.node == node:
                    return upload.take(object_id, content)
        return False

    def answered(self, message_id: str) -> Upload | None:
        """The reply to the message, once it is complete."""
        with self._lock:
            upload = self._uploads.get(message_id)
        return upload if upload is not None and upload.is_complete() else None

    def close(self, message_id: str) -> None:
        """Discard the message and any reply: nobody waits for an answer any more."""
        with self._lock:
            self._uploads.pop(message_id, None)
            self._rooms.pop(message_id, None)
        with self.storing:
            self.state.forget(message_id)
            self.state.object_store.delete(message_id)

    def confirm(self, node: int, message_id: str) -> None:
        """Discard the message's objects: the node has fetched all of them."""
        if presence := self._presence(node):
            presence.readable.clear()
        with self.storing:
            self.state.object_store.delete(message_id)


def asked_of(state: SteadyLinkState, message_id: str) -> Message | None:
    """The message of that id, if the server has sent it and has taken no reply yet."""
    return state.message_ins_store.get(message_id)


def _forget(state: SteadyLinkState, node: int) -> None:
    """Remove the node from Flower's state, which would keep it for ever and scan all nodes repeatedly."""
    known = state.nodes.pop(node)
    state.node_public_key_to_node_id.pop(known.public_key, None)
    state.owner_to_node_ids[known.owner_aid].discard(node)


def _running(state: SteadyLinkState) -> int:
    """Create a running run. Its token, which would expire, is deleted: no Runtime API is served to use it."""
    run_id = state.create_run("", "", "", {}, NOOP_FEDERATION_ID, None, NOOP_FLWR_AID, TaskType.SERVER_APP)
    task = state.get_run_info(run_ids=[run_id])[0].primary_task_id
    assert task is not None
    state.claim_task(task)
    state.activate_task(task)
    for kept in (state.task_token_store, state.task_token_to_task_id):
        kept.clear()
    return run_id
