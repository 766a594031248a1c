"""A federation of two sites with a real port, real TLS and throw-away keys."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from flwr.app import ConfigRecord, Message, MessageType, Metadata, RecordDict
from flwr.app.message import make_message
from flwr.common.serde import message_to_proto
from flwr.proto.fleet_pb2 import PushMessagesRequest
from flwr.proto.message_pb2 import PushObjectRequest
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
from flwr.supercore.task_identity import TaskIdentity

from fl_dp.federation.link.door import Door
from fl_dp.federation.link.hub import Hub
from fl_dp.federation.link.link_grid import LinkGrid
from fl_dp.federation.link.listener import listening
from fl_dp.federation.link.signed_message import signed
from fl_dp.federation.link.site_link import SiteLink
from fl_dp.kits.kit import ServerKit, SiteKit
from fl_dp.kits.loopback import loopback_server, loopback_site

HOST = "127.0.0.1"


@dataclass
class Federation:
    server: ServerKit
    sites: dict[str, SiteKit]
    hub: Hub
    door: Door
    grid: LinkGrid
    port: int
    links: list[SiteLink] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    def link(self, name: str) -> SiteLink:
        """A site's end, not joined yet."""
        self.links.append(SiteLink(self.sites[name], self.address))
        return self.links[-1]

    def joined(self, name: str) -> SiteLink:
        link = self.link(name)
        link.join()
        return link

    def node(self, name: str) -> int:
        node = self.hub.node_of(self.site(name))
        assert node is not None
        return node

    def site(self, name: str) -> Any:
        (site,) = (site for site in self.hub.roster.sites if site.name == name)
        return site

    def ask(self, name: str, kind: str = MessageType.TRAIN, content: RecordDict | None = None) -> str:
        """The id of a message to that site."""
        content = content or RecordDict({"plan": ConfigRecord({"steps": 3})})
        message = Message(content, self.node(name), kind, ttl=60.0)
        (message_id,) = self.grid.push_messages([message])
        return message_id

    def answer(self, name: str, link: SiteLink, content: RecordDict | None = None) -> Message:
        """Ask the site, let it answer, and return what the grid makes of it."""
        message_id = self.ask(name)
        message = link.next_message()
        assert message is not None
        link.answer(message, content or RecordDict({"report": ConfigRecord({"ok": True})}))
        (reply,) = self.grid.pull_messages([message_id])
        return reply


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    folder = tmp_path_factory.mktemp("keys")
    loopback_server(folder, 1)
    names = ["north", "south"]
    for name in names:
        loopback_site(folder, name)
    return folder, names


@pytest.fixture
def federation(keys: tuple[Path, list[str]]) -> Iterator[Federation]:
    with _served(*keys) as made:
        yield made


@pytest.fixture
def linked(keys: tuple[Path, list[str]]) -> Iterator[Federation]:
    """The same, for tests whose `federation` is another."""
    with _served(*keys) as made:
        yield made


@contextmanager
def _served(folder: Path, names: list[str]) -> Iterator[Federation]:
    server = loopback_server(folder, 1)
    sites = {name: loopback_site(folder, name) for name in names}
    hub = Hub(server.roster)
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = hub.run_id, 1, 1
    door = Door(hub)
    with ExitStack() as stack:
        port = stack.enter_context(listening(door, server, HOST, 0))
        made = Federation(server, sites, hub, door, LinkGrid(hub, server.key), port)
        yield made
        for link in made.links:
            link.close()


def in_thread(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def push_raw(
    link: SiteLink,
    asked: Message,
    *,
    inner: dict[str, Any] | None = None,
    outer: dict[str, Any] | None = None,
    root: Any = None,
) -> None:
    """Answer `asked` as a site may that writes its own requests.

    inner: fields of the reply's own metadata that are lies; outer: of what the request says. root: sent in
    the place of the reply.
    """
    known = asked.metadata
    honest = {
        "_run_id": known.run_id, "_src_node_id": known.dst_node_id, "_dst_node_id": 1,
        "_reply_to_message_id": known.message_id, "_group_id": known.group_id,
        "_created_at": known.created_at, "_ttl": known.ttl, "_message_type": known.message_type,
    }  # fmt: skip
    content = signed(
        RecordDict({"report": ConfigRecord({"ok": True})}),
        link._bearing(asked, known.message_id),
        link._kit.key,
    )
    if root is None:
        root = make_message(metadata=Metadata(**_unscored(honest)), content=content)
        root.metadata.__dict__.update(inner or {})
    said = make_message(metadata=Metadata(**_unscored(honest)), content=RecordDict())
    said.metadata.__dict__.update({"_message_id": root.object_id, **(outer or {})})
    client, node = link._client, link._node
    response = client.PushMessages(
        PushMessagesRequest(
            node=node, messages_list=[message_to_proto(said)], message_object_trees=[get_object_tree(root)]
        )
    )
    for object_id, one in get_all_nested_objects(root).items():
        client.PushObject(
            PushObjectRequest(
                node=node, run_id=known.run_id, session_id=response.session_id, object_id=object_id,
                object_content=one.deflate(),
            )
        )  # fmt: skip


def _unscored(fields: dict[str, Any]) -> dict[str, Any]:
    return {"message_id": "", **{name.lstrip("_"): value for name, value in fields.items()}}
