"""The server's own end in this process: Flower's state, our door and grid, all serialization; no sockets.

A site takes its instructions and pushes its reply as it does over the network: outer metadata, a tree of
objects, the objects' bytes; its content signed with the site's own key, whatever it is.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from flwr.app import Message
from flwr.app.message import make_message, remove_content_from_message
from flwr.common.serde import message_to_proto
from flwr.proto.fleet_pb2 import PushMessagesRequest
from flwr.proto.node_pb2 import Node as ProtoNode
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.task_identity import TaskIdentity

from fl_dp.federation.link.door import ROUTES, Door
from fl_dp.federation.link.hub import Hub
from fl_dp.federation.link.link_grid import LinkGrid
from fl_dp.federation.link.signed_message import SIGNED, Bearing, signed
from fl_dp.federation.link.signed_request import RequestRefusedError
from fl_dp.federation.wire.messages import set_metadata
from fl_dp.kits.keys import SigningKey
from fl_dp.kits.roster import Roster, Site, expiry

Node = Callable[[Message], Message | None]
REFUSED = (ValueError, TypeError, KeyError, AttributeError, OverflowError)


class Link:
    """The hub of a run with sites of these names. The message factory is told the run's number."""

    keys: ClassVar[dict[str, SigningKey]] = {}  # by name; kept, because making them takes a while

    def __init__(self, names: Sequence[str]) -> None:
        for name in names:
            self.keys.setdefault(name, SigningKey.generate())
        self.sites = [Site(name, self.keys[name].public) for name in names]
        server = SigningKey.generate()
        roster = Roster("f", 1, expiry(1), server.public, server.public, (), tuple(self.sites), "")
        self.hub = Hub(roster)
        self.door, self.grid = Door(self.hub), LinkGrid(self.hub, server)
        self.nodes = [self.hub.join(site) for site in self.sites]
        TaskIdentity._run_id = self.hub.run_id
        self._loop = asyncio.new_event_loop()

    def close(self) -> None:
        self._loop.close()

    def answer(self, number: int, node: Node, forge: Callable[[Any], None]) -> None:
        """Let that site take its instructions and push what it answers. forge: changes outer metadata."""
        for message in self.hub.state.get_message_ins(self.nodes[number], limit=None):
            asked = self._whole(message)
            reply = node(asked)
            if reply is not None:
                self._push(number, asked, reply, forge)

    def _whole(self, message: Message) -> Message:
        """The instruction with its content, as a site reads it; its signature is not looked at."""
        state, message_id = self.hub.state, message.metadata.message_id
        tree = state.object_store.get_object_tree(message_id)
        contents = {one: state.object_store.get(one) for one in [message_id, *_ids_below(tree)]}
        whole = inflate_object_from_contents(message_id, contents)
        set_metadata(whole, message_id=message_id)
        del whole.content[SIGNED]
        return whole

    def _push(self, number: int, asked: Message, reply: Message, forge: Callable[[Any], None]) -> None:
        """What cannot be written, or is turned away at the door, does not come."""
        try:
            outer, tree, objects = self._written(number, asked, reply, forge)
            request = PushMessagesRequest(
                node=ProtoNode(node_id=self.nodes[number]), messages_list=[outer], message_object_trees=[tree]
            )
        except REFUSED:
            return
        handle = ROUTES["push-messages"].handle
        try:
            taken: Any = self._loop.run_until_complete(handle(self.door, self.sites[number], request))
        except RequestRefusedError:
            return
        for one in taken.objects_to_push:
            self.hub.store(taken.session_id, self.nodes[number], one, objects[one])

    def _written(
        self, number: int, asked: Message, reply: Message, forge: Callable[[Any], None]
    ) -> tuple[Any, Any, dict[str, bytes]]:
        site, known = self.sites[number], asked.metadata
        bearing = Bearing(
            "f",
            self.hub.run_id,
            known.message_type,
            known.group_id,
            site.key,
            known.created_at,
            known.message_id,
        )
        if reply.has_content():
            content = signed(reply.content, bearing, self.keys[site.name])
            reply = make_message(metadata=reply.metadata, content=content)
        set_metadata(reply, message_id=reply.object_id)
        outer = message_to_proto(remove_content_from_message(reply))
        forge(outer.metadata)
        objects = {key: one.deflate() for key, one in get_all_nested_objects(reply).items()}
        return outer, get_object_tree(reply), objects


def _ids_below(tree: Any) -> list[str]:
    return [found for child in tree.children for found in (child.object_id, *_ids_below(child))]
