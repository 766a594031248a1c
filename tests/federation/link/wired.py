"""A federation of two sites with a real port, real TLS and throw-away keys."""

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
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
from fl_dp.kits.provision import loopback_server, loopback_sites

HOST = "127.0.0.1"
REPORT = RecordDict({"report": ConfigRecord({"ok": True})})


class Federation:
    """server, sites: their kits."""

    port: int

    def __init__(self, server: ServerKit, sites: dict[str, SiteKit]) -> None:
        self.server, self.sites = server, sites
        self.hub = Hub(server.roster)
        self.door, self.grid = Door(self.hub), LinkGrid(self.hub, server.key)
        self._links: list[SiteLink] = []
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = self.hub.run_id, 1, 1

    def close(self) -> None:
        for link in self._links:
            link.close()

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    def link(self, name: str, kit: SiteKit | None = None) -> SiteLink:
        """A site's end, not joined yet."""
        self._links.append(SiteLink(kit or self.sites[name], self.address))
        return self._links[-1]

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

    def asked(self, name: str, link: SiteLink, *question: Any) -> Message:
        """Ask the site; the message as it gets it."""
        self.ask(name, *question)
        message = link.next_message()
        assert message is not None
        return message

    def reply_to(self, message: Message) -> Message:
        """What the grid makes of the answer to it."""
        (reply,) = self.grid.pull_messages([message.metadata.message_id])
        return reply

    def answer(self, name: str, link: SiteLink, content: RecordDict = REPORT) -> Message:
        """Ask the site, let it answer, and return what the grid makes of it."""
        message = self.asked(name, link)
        link.answer(message, content)
        return self.reply_to(message)


class Front:
    """Kits, and one port for all tests: to start and end a server takes longer than most of them."""

    door: Door  # of the test that runs
    port: int

    def __init__(self, folder: Path) -> None:
        names = ["north", "south"]
        loopback_server(folder, 1)
        self.sites = dict(zip(names, loopback_sites(folder, names), strict=True))
        self.server = loopback_server(folder, 1)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.door(scope, receive, send)


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    front = Front(tmp_path_factory.mktemp("keys"))
    with listening(front, front.server, HOST, 0) as front.port:  # type: ignore[arg-type]
        yield front


@pytest.fixture
def federation(keys: Front) -> Iterator[Federation]:
    with closing(Federation(keys.server, keys.sites)) as made:
        keys.door, made.port = made.door, keys.port
        yield made


@pytest.fixture
def linked(keys: Front) -> Iterator[Federation]:
    """With a server of its own, for tests that change how connections are held."""
    made = Federation(keys.server, keys.sites)
    with listening(made.door, made.server, HOST, 0) as made.port, closing(made):
        yield made


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
        "_run_id": known.run_id,
        "_src_node_id": known.dst_node_id,
        "_dst_node_id": 1,
        "_reply_to_message_id": known.message_id,
        "_group_id": known.group_id,
        "_created_at": known.created_at,
        "_ttl": known.ttl,
        "_message_type": known.message_type,
    }
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
                node=node,
                run_id=known.run_id,
                session_id=response.session_id,
                object_id=object_id,
                object_content=one.deflate(),
            )
        )


def _unscored(fields: dict[str, Any]) -> dict[str, Any]:
    return {"message_id": "", **{name.lstrip("_"): value for name, value in fields.items()}}
