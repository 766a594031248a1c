"""Flower's own server in this process: its link state, handlers and serialization; only sockets lack.

The server's side is Flower's `HttpGrid` with a client that calls the handlers. A node takes its instructions
and pushes its reply as a SuperNode does: outer metadata, a tree of objects, and the objects' bytes.
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from flwr.app import Message
from flwr.app.message import remove_content_from_message
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.server.superlink.linkstate.in_memory_linkstate import InMemoryLinkState
from flwr.supercore.constant import NOOP_FEDERATION_ID
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.object_store.in_memory_object_store import InMemoryObjectStore
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.federation.noop_federation_manager import NoOpFederationManager
from flwr.superlink.grid.http_grid import HttpGrid
from flwr.superlink.servicer.runtime import runtime_handlers

REFUSED = (ValueError, TypeError, KeyError, AttributeError, OverflowError)

Node = Callable[[Message], Message | None]


class Link:
    """nodes: by their number here; `ids` has Flower's."""

    def __init__(self, number: int, federation: str = NOOP_FEDERATION_ID) -> None:
        self.state = InMemoryLinkState(NoOpFederationManager(), InMemoryObjectStore())
        self.run = self.state.create_run(
            None, None, None, {}, federation, None, None, "flwr-serverapp",
        )  # fmt: skip
        assert self.run
        self.ids = [self.state.create_node("", "", f"key {i}".encode(), 1e6) for i in range(number)]
        for node in self.ids:
            assert self.state.activate_node(node, 1e6)
        TaskIdentity._run_id = self.run  # messages are made with these
        TaskIdentity._node_id = 1

    def grid(self) -> HttpGrid:
        grid = HttpGrid(token="unused")
        grid._run = SimpleNamespace(run_id=self.run)  # type: ignore[assignment]
        grid._client = _Handlers(self)  # type: ignore[assignment]
        return grid

    def answer(self, number: int, node: Node, forged: Callable[[Any], None] = lambda metadata: None) -> None:
        """Let that node take its instructions and push what it answers. forged: changes outer metadata."""
        for message in self.state.get_message_ins(self.ids[number], limit=None):
            self._push(node(self._whole(message)), forged)

    def _whole(self, message: Message) -> Message:
        """The instruction with its content, as a SuperNode reads it."""
        message_id = message.metadata.message_id
        tree = self.state.object_store.get_object_tree(message_id)
        ids = [tree.object_id, *_ids_below(tree)]
        contents = {one: self.state.object_store.get(one) for one in ids}
        whole = inflate_object_from_contents(message_id, contents)
        whole.metadata.__dict__["_message_id"] = message_id
        return whole

    def _push(self, reply: Message | None, forged: Callable[[Any], None]) -> None:
        if reply is None:
            return
        try:
            reply.metadata.__dict__["_message_id"] = reply.object_id
            outer = message_to_proto(remove_content_from_message(reply))
            objects = {key: one.deflate() for key, one in get_all_nested_objects(reply).items()}
            forged(outer.metadata)
            taken = message_from_proto(outer)
        except REFUSED:  # it cannot be written, or Flower's server does not take it: nothing comes
            return
        session = self.state.start_session(self.run)
        stored, wanted = self.state.store_message_and_object_tree(taken, get_object_tree(reply), session)
        for object_id in wanted if stored else ():
            self.state.store_object(self.run, session, object_id, objects[object_id])


def _ids_below(tree: Any) -> list[str]:
    return [found for child in tree.children for found in (child.object_id, *_ids_below(child))]


class _Handlers:
    """What `HttpGrid` calls over HTTP, called here."""

    def __init__(self, link: Link) -> None:
        self._link, self._task = link, SimpleNamespace(run_id=link.run)

    def GetNodes(self, request: Any) -> Any:  # noqa: N802
        return runtime_handlers.get_nodes(request, self._link.state, self._task)

    def PushMessages(self, request: Any) -> Any:  # noqa: N802
        return runtime_handlers.push_messages(request, self._link.state, self._task)

    def PullMessages(self, request: Any) -> Any:  # noqa: N802
        return runtime_handlers.pull_messages(request, self._link.state, self._task)

    def PushObject(self, request: Any) -> Any:  # noqa: N802
        return runtime_handlers.push_object(request, self._link.state, self._task)

    def PullObject(self, request: Any) -> Any:  # noqa: N802
        return runtime_handlers.pull_object(request, self._link.state, self._task)

    def ConfirmMessageReceived(self, request: Any) -> Any:  # noqa: N802
        return runtime_handlers.confirm_message_received(request, self._link.state, self._task)
