"""A Flower Grid over the hub, through which the server's strategy reaches its sites by the door alone."""

import logging
from collections.abc import Callable, Collection, Iterable

from flwr.app import Error, Message, MessageType, Metadata, RecordDict
from flwr.app.message import make_message, remove_content_from_message
from flwr.common.constant import SUPERLINK_NODE_ID, ErrorCode
from flwr.proto.node_pb2 import NodeInfo
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.run import Run

from fl_dp.errors import FederationError
from fl_dp.federation.link.hub import Hub
from fl_dp.federation.link.signed_message import Bearing, checked, signed
from fl_dp.federation.link.upload import Room, Upload
from fl_dp.federation.wire.messages import PROFILE, config_record, set_metadata
from fl_dp.federation.wire.send_receive import BaseGrid
from fl_dp.kits.keys import SigningKey
from fl_dp.kits.roster import Site

logger = logging.getLogger("fl_dp")

_TOO_LATE = Error(ErrorCode.MESSAGE_UNAVAILABLE, "it did not answer in time")


class LinkGrid(BaseGrid):
    """key: signs the messages to sites. on_wait: called repeatedly while the server waits."""

    def __init__(self, hub: Hub, key: SigningKey, on_wait: Callable[[], None] = lambda: None) -> None:
        self._hub, self._key, self._on_wait = hub, key, on_wait
        self._asked: dict[str, tuple[Metadata, Site]] = {}  # by message id, until answered or given up

    def set_run(self, run: Run) -> None:
        """Does nothing: the hub has one run."""

    @property
    def run(self) -> Run:
        return self._hub.state.get_run_info(run_ids=[self._hub.run_id])[0]

    @property
    def sites(self) -> Collection[str]:
        return {site.name for site in self._hub.roster.sites}

    def site_of(self, node: int) -> Site | None:
        return self._hub.site_of(node)

    def get_node_ids(self) -> Iterable[int]:
        self._on_wait()
        return self._hub.here()

    def get_nodes(self) -> Iterable[NodeInfo]:
        return list(self._hub.state.get_node_info(node_ids=list(self.get_node_ids())))

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Sign and send the messages; returns the ids of those sent."""
        sent, nodes = [], set()
        with no_object_id_recompute():  # sites that get the same weights share their objects
            for message in messages:
                site = self.site_of(message.metadata.dst_node_id)
                if site is not None and self._push(message, site):
                    sent.append(message.metadata.message_id)
                    nodes.add(message.metadata.dst_node_id)
        self._hub.ring(nodes)
        return sent

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """The replies that have arrived, and an error for each message that will have none."""
        self._on_wait()
        found = [reply for one in set(message_ids) if (reply := self._reply_to(one)) is not None]
        self.give_up(self._hub.state.overdue())
        return found

    def give_up(self, message_ids: Iterable[str]) -> None:
        """Discard the messages and their replies; the door refuses late replies."""
        for message_id in message_ids:
            self._asked.pop(message_id, None)
            self._hub.close(message_id)

    def _push(self, message: Message, site: Site) -> bool:
        state = self._hub.state
        set_metadata(message, run_id=self._hub.run_id)
        content = signed(message.content, self._bearing(message.metadata, site), self._key)
        whole = make_message(metadata=message.metadata, content=content)
        set_metadata(message, message_id=whole.object_id)
        tree = get_object_tree(whole)
        bare = remove_content_from_message(whole)
        objects = get_all_nested_objects(whole)
        self._hub.expect(whole.metadata.message_id, Room.of_reply_to(message.content))
        with self._hub.storing:  # so that objects shared with another message are not deleted meanwhile
            store, message_id = state.object_store, whole.metadata.message_id
            for object_id in store.preregister(self._hub.run_id, tree):
                store.put(object_id, objects[object_id].deflate())
            if state.store_message_ins(bare) is None:
                self._hub.close(message_id)
                return False
        self._asked[message_id] = whole.metadata, site
        return True

    def _bearing(self, metadata: Metadata, site: Site, answers: str = "") -> Bearing:
        return Bearing.of(self._hub.roster.federation, metadata, site.key, answers)

    def _reply_to(self, message_id: str) -> Message | None:
        """The verified reply, or an error in its place; None while it may still come."""
        known = self._asked.get(message_id)
        if known is None:  # it was given up
            kind = MessageType.QUERY  # it may have been another; Flower takes no message without one
            unknown = Metadata(self._hub.run_id, "", 0, 0, message_id, "", 0.0, 0.0, kind)
            return make_message(unknown, error=_TOO_LATE)
        asked, site = known
        answer = self._hub.answered(message_id) or self._error(asked, site)
        if answer is None:
            return None
        self.give_up([message_id])
        if isinstance(answer, Error):
            return make_message(_reply_metadata(asked), error=answer)
        try:
            return make_message(_reply_metadata(asked), content=self._content(asked, site, answer))
        except FederationError as wrong:
            logger.warning("client %s: %s", site.name, wrong)
            error = Error(ErrorCode.MESSAGE_UNAVAILABLE, str(wrong))
            return make_message(_reply_metadata(asked), error=error)

    def _error(self, asked: Metadata, site: Site) -> Error | None:
        """Why no answer will come; None if it still may."""
        if self._hub.state.is_over(asked.message_id):
            return _TOO_LATE
        if not self._hub.is_here(asked.dst_node_id):
            return Error(ErrorCode.NODE_UNAVAILABLE, f"site {site.name} is no longer connected")
        return None

    def _content(self, asked: Metadata, site: Site, upload: Upload) -> RecordDict:
        """The reply's content; FederationError unless it is complete, the site's own, and to this message."""
        try:
            whole = upload.whole()
        except Exception as error:
            raise FederationError(f"a reply that is not a message ({type(error).__name__})") from None
        said, known = whole.metadata, _reply_metadata(asked)
        same = ("run_id", "src_node_id", "dst_node_id", "reply_to_message_id", "group_id", "message_type")
        if any(getattr(said, name) != getattr(known, name) for name in same) or not whole.has_content():
            raise FederationError("a reply whose content belongs to another message")
        bearing = self._bearing(asked, site, asked.message_id)
        with no_object_id_recompute():  # an array with many names is read once
            content = checked(whole.content, bearing, site.key)
        profile = config_record(content, PROFILE)
        if asked.message_type == MessageType.QUERY and profile is not None:
            name = profile.get("client")
            if name != site.name:
                raise FederationError(f"gives another name than its key has in the roster, {site.name}")
        return content


def _reply_metadata(known: Metadata) -> Metadata:
    """The metadata of the reply to a message, from what the server itself knows."""
    return Metadata(
        run_id=known.run_id,
        message_id="",
        src_node_id=known.dst_node_id,
        dst_node_id=SUPERLINK_NODE_ID,
        reply_to_message_id=known.message_id,
        group_id=known.group_id,
        created_at=known.created_at,
        ttl=known.ttl,
        message_type=known.message_type,
    )
