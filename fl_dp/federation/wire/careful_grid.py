"""Flower's grid of a server, whose every reply is read by itself: one that cannot be read is one client's.

A client writes its reply as a tree of objects, and the SuperLink passes their bytes on. It checks the reply's
outer metadata, who has pushed it and what it answers, and not those inside. Flower's own `HttpGrid` believes
those inside, reads all replies in one go, so that bytes that do not parse end the run, and waits up to two
hours for a part that a client does not upload.
"""

import logging
import time
from collections.abc import Callable, Iterable
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
    ObjectUnavailableError,
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
        self._begun: dict[str, _Begun] = {}  # replies that are being uploaded, by what they answer

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """The replies that are there. One that cannot be read is an error reply to what it answers.

        One whose parts are still being uploaded is left for a later call: nobody waits for it alone.
        """
        wanted = set(message_ids)
        response = self._grid._runtime_client.PullMessages(PullAppMessagesRequest(message_ids=wanted))
        for outer, tree in zip(response.messages_list, response.message_object_trees, strict=True):
            self._begun[outer.metadata.reply_to_message_id] = _Begun(outer, tree)
        self._begun = {key: one for key, one in self._begun.items() if not one.is_late}
        found = {key: self._read(one) for key, one in self._begun.items() if key in wanted}
        replies = {key: reply for key, reply in found.items() if reply is not None}
        self._begun = {key: one for key, one in self._begun.items() if key not in replies}
        return list(replies.values())

    def _read(self, begun: "_Begun") -> Message | None:
        """The reply; None if not all of it is there yet."""
        client, outer = self._grid._runtime_client, begun.outer
        message_id, run = outer.metadata.message_id, outer.metadata.run_id
        try:
            if not begun.is_complete(make_pull_object_fn_protobuf(client.PullObject, self._grid.node, run)):
                return None
        except ObjectPullError:
            return _problem(outer, MISSING)
        client.ConfirmMessageReceived(
            ConfirmMessageReceivedRequest(node=self._grid.node, run_id=run, message_object_id=message_id)
        )
        return read_reply(outer, message_id, begun.contents)

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


class _Begun:
    """A reply of which the SuperLink knows, and the objects of it that were there so far."""

    def __init__(self, outer: ProtoMessage, tree: ObjectTree) -> None:
        self.outer = outer
        self.contents: dict[str, bytes] = {}
        self._missing = [one.object_id for one in iterate_object_tree(tree)]
        self._until = time.monotonic() + outer.metadata.ttl

    @property
    def is_late(self) -> bool:
        """Whether the message that it answers has expired."""
        return time.monotonic() > self._until

    def is_complete(self, pull: Callable[[str], bytes]) -> bool:
        """Fetch what is there; whether that is all. ObjectPullError: something will never be there."""
        try:
            self.contents |= pull_objects(self._missing, pull, max_tries_per_object=1)
            return True
        except ObjectPullError:
            pass  # not there yet, or never: see which
        for one in list(self._missing):
            try:
                self.contents[one] = pull(one)
            except ObjectUnavailableError:
                return False
            self._missing.remove(one)
        return True


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
