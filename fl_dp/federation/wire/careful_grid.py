"""Flower's grid of a server, whose every reply is read by itself: one that cannot be read is one client's.

A client writes its reply as a tree of objects, and the SuperLink passes the bytes on. It checks the outer
metadata of the reply (who has pushed it, and what it answers) and not those inside. Flower's own `HttpGrid` reads all
replies in one go, so that one of bytes that do not parse ends the run, and believes the metadata inside.
"""

import logging
from collections.abc import Iterable
from typing import Any

from flwr.app import Error, Message, Metadata, RecordDict
from flwr.app.message import make_message
from flwr.common.constant import ErrorCode
from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest, ObjectTree
from flwr.proto.message_pb2 import Message as ProtoMessage
from flwr.proto.runtime_pb2 import PullAppMessagesRequest
from flwr.serverapp import Grid
from flwr.supercore.inflatable.inflatable_object import iterate_object_tree
from flwr.supercore.inflatable.inflatable_protobuf_utils import make_pull_object_fn_protobuf
from flwr.supercore.inflatable.inflatable_utils import (
    ObjectPullError,
    inflate_object_from_contents,
    pull_objects,
)
from flwr.superlink.grid.http_grid import HttpGrid

logger = logging.getLogger("fl_dp")

UNREADABLE = "a reply that cannot be read"
FORGED = "a reply whose metadata are not those that it was pushed with"
MISSING = "a reply of which parts are missing"


def careful(grid: Grid) -> Grid:
    """The grid, with replies read one by one if they come from other machines."""
    return CarefulGrid(grid) if isinstance(grid, HttpGrid) else grid


class CarefulGrid(Grid):
    """An `HttpGrid`, all of it but `pull_messages`, in whose place this leans on Flower's internals; they are
    those of the one version that is installed.
    """

    def __init__(self, grid: HttpGrid) -> None:
        self._grid = grid

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """The replies that are there. One that cannot be read is an error reply to what it answers."""
        request = PullAppMessagesRequest(message_ids=message_ids)
        response = self._grid._runtime_client.PullMessages(request)
        pairs = zip(response.messages_list, response.message_object_trees, strict=True)
        return [self._read(outer, tree) for outer, tree in pairs]

    def _read(self, outer: ProtoMessage, tree: ObjectTree) -> Message:
        client, run = self._grid._runtime_client, outer.metadata.run_id
        message_id = outer.metadata.message_id
        pull = make_pull_object_fn_protobuf(client.PullObject, self._grid.node, run)
        try:
            contents = pull_objects([one.object_id for one in iterate_object_tree(tree)], pull)
        except ObjectPullError:
            return _problem(outer, MISSING)
        client.ConfirmMessageReceived(
            ConfirmMessageReceivedRequest(node=self._grid.node, run_id=run, message_object_id=message_id)
        )
        return read_reply(outer, message_id, contents)

    def set_run(self, run: Any) -> None:
        self._grid.set_run(run)

    @property
    def run(self) -> Any:
        return self._grid.run

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        return self._grid.get_node_ids()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        return self._grid.push_messages(messages)

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """fl_dp sends and receives by itself (`send_receive`); this is Flower's own."""
        return self._grid.send_and_receive(messages, timeout=timeout)


def read_reply(outer: ProtoMessage, message_id: str, contents: dict[str, bytes]) -> Message:
    """The message of these objects, or an error reply. outer: its metadata are those that were checked."""
    try:
        message = inflate_object_from_contents(message_id, contents)
    except Exception as error:  # of Flower's parsers alone, on a stranger's bytes: none of our code runs here
        logger.warning("%s: %s", UNREADABLE, type(error).__name__)
        return _problem(outer, UNREADABLE)
    if not isinstance(message, Message):
        return _problem(outer, UNREADABLE)
    told, checked = message.metadata, outer.metadata
    names = ("run_id", "src_node_id", "dst_node_id", "reply_to_message_id", "group_id", "message_type")
    if any(getattr(told, name) != getattr(checked, name) for name in names):
        return _problem(outer, FORGED)
    message.metadata.__dict__["_message_id"] = message_id  # as Flower's own grid does
    return message


def _problem(outer: ProtoMessage, reason: str) -> Message:
    seen = outer.metadata
    metadata = Metadata(
        run_id=seen.run_id,
        message_id=seen.message_id,
        src_node_id=seen.src_node_id,
        dst_node_id=seen.dst_node_id,
        reply_to_message_id=seen.reply_to_message_id,
        group_id=seen.group_id,
        created_at=seen.created_at,
        ttl=seen.ttl,
        message_type=seen.message_type,
    )
    return make_message(metadata=metadata, error=Error(code=ErrorCode.MESSAGE_UNAVAILABLE, reason=reason))
