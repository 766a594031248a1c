"""A site's connection to its server: the site connects, signs its requests, verifies the server's messages.

The site opens no port, so nobody on this machine can answer in its name. The server's messages are read up to
a limit, and never decompressed. The kit's newest roster says whose signature is valid.
"""

import dataclasses
import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import httpx
from flwr.app import Message, RecordDict
from flwr.app.message import make_message, remove_content_from_message
from flwr.common.constant import SUPERLINK_NODE_ID
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.fleet_pb2 import (
    ActivateNodeRequest,
    DeactivateNodeRequest,
    PullMessagesRequest,
    PullMessagesResponse,
    PushMessagesRequest,
)
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
from flwr.proto.message_pb2 import (
    ConfirmMessageReceivedRequest,
    PullObjectRequest,
    PushObjectRequest,
)
from flwr.proto.node_pb2 import Node
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    iterate_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.protobuf.client import ProtobufCall, ProtobufRequestContext
from flwr.supernode.fleet_http_client import FleetHttpClient

from fl_dp.clean_text import one_line
from fl_dp.durable_files import version_of
from fl_dp.errors import ConfigError, FederationError
from fl_dp.federation.link.hub import SILENCE
from fl_dp.federation.link.signed_message import Bearing, checked, signed
from fl_dp.federation.link.signed_request import RequestRefusedError, SteadyClock, sign_request
from fl_dp.federation.link.upload import unfolded
from fl_dp.federation.secure_sum.limits import Identity
from fl_dp.federation.wire.messages import set_metadata
from fl_dp.kits.kit import ROSTER, SiteKit, trusted_roster

_SECONDS = httpx.Timeout(30.0, connect=10.0)  # of silence; after `connect`, the next address is tried
_MOST_BYTES = 32 * 2**20  # of a response; Flower cuts arrays into objects of 5 MiB
_MOST_WORDS = 2**16  # bytes of a refusal


class LinkLostError(Exception):
    """The server does not answer now, but may later."""


class LinkRefusedError(RequestRefusedError):
    @property
    def is_over(self) -> bool:
        return self.status == httpx.codes.GONE

    @property
    def is_late(self) -> bool:
        return self.status == httpx.codes.NOT_FOUND

    @property
    def has_lapsed(self) -> bool:
        return self.status == httpx.codes.CONFLICT


class SiteLink:
    """The connection of a site.

    kit: the site's. address: HOST:PORT of the server; empty: the roster's addresses are tried in turn.
    Methods raise LinkLostError and LinkRefusedError, and FederationError if the kit's roster or the server
    cannot be trusted.
    """

    def __init__(self, kit: SiteKit, address: str = "") -> None:
        self._kit, self._address = kit, address
        self._seen: tuple[int, ...] = ()  # version of the roster file; it may be newer than the loaded kit
        self._at = 0  # index of the address in use
        self._asked_by = ""  # the key of the server that sent the last message
        self._node = Node()
        self._http, self._client = self._connection()

    def close(self) -> None:
        self._client.close()
        self._http.close()

    @property
    def _addresses(self) -> tuple[str, ...]:
        return (self._address,) if self._address else self._kit.roster.addresses

    def _connection(self) -> tuple[httpx.Client, FleetHttpClient]:
        """The HTTP client that reads, and Flower's client, which writes requests; by the present roster."""
        self._connected_by = self._kit.roster
        trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        trust.load_verify_locations(cadata=self._kit.roster.certificate)
        http = httpx.Client(verify=trust)
        address = self._addresses[self._at % len(self._addresses)]
        self._signing = _SignedAndBounded(self._kit, http)
        return http, FleetHttpClient(f"https://{address}", verify=trust, interceptors=[self._signing])

    def _connect_anew(self) -> None:
        self.close()
        self._http, self._client = self._connection()

    def _take_newest_roster(self) -> None:
        seen = version_of(self._kit.folder / ROSTER)
        if seen and seen == self._seen:
            return
        try:
            roster = trusted_roster(self._kit.folder)
        except (ConfigError, OSError) as error:
            raise FederationError(f"this site's kit cannot be used: {error}") from None
        self._seen, self._kit = seen, dataclasses.replace(self._kit, roster=roster)

    @property
    def kit_has_ended(self) -> bool:
        """Whether the kit needs a newer roster before the site can join."""
        with suppress(FederationError):  # `join` reports what is wrong with the kit
            self._take_newest_roster()
        return self._kit.roster.is_over()

    @property
    def identity(self) -> Identity:
        """This site's identity in a secure sum, and the sites that may be members, by its present kit."""
        return Identity(self._kit.key, frozenset(site.key for site in trusted_roster(self._kit.folder).sites))

    def sign(self, purpose: str, body: bytes) -> bytes:
        """The site's signature of `body`, valid for this purpose alone."""
        return self._kit.key.sign(purpose, body)

    def join(self) -> None:
        """Join as a new node. Requests to an earlier node can no longer be answered."""
        self._take_newest_roster()
        if self._kit.roster != self._connected_by:
            self._connect_anew()
        for left in reversed(range(len(self._addresses))):
            try:
                self._join()
            except LinkLostError:
                self._at += 1
                self._connect_anew()
                if not left:
                    raise
            else:
                return

    def _join(self) -> None:
        self._signing.clock = SteadyClock()  # set anew: a site whose clock the server refuses joins again
        with _errors():
            key = bytes.fromhex(self._kit.key.public)
            request = ActivateNodeRequest(public_key=key, heartbeat_interval=SILENCE / 2)
            self._node = Node(node_id=self._client.ActivateNode(request).node_id)

    def leave(self) -> None:
        with _errors():
            self._client.DeactivateNode(DeactivateNodeRequest(node_id=self._node.node_id))

    def beat(self) -> None:
        """Send a heartbeat: the site is there, and busy."""
        with _errors():
            self._client.SendNodeHeartbeat(
                SendNodeHeartbeatRequest(node=self._node, heartbeat_interval=SILENCE / 2)
            )

    def next_message(self) -> Message | None:
        """The server's next message, complete and verified; None if none comes for a while.

        FederationError for a message that the server has not signed; it gets no answer.
        """
        with _errors():
            response = self._client.PullMessages(PullMessagesRequest(node=self._node))
            if not response.messages_list:
                return None
            bare, parts = _told(response)
            contents = self._objects(bare.metadata.run_id, parts)
            self._client.ConfirmMessageReceived(
                ConfirmMessageReceivedRequest(
                    node=self._node, run_id=bare.metadata.run_id, message_object_id=bare.metadata.message_id
                )
            )
        self._take_newest_roster()
        self._asked_by = self._kit.roster.server
        return self._believed(bare, contents)

    def answer(self, message: Message, content: RecordDict) -> None:
        """Send the content, signed, as the reply to `message`, the last one read.

        FederationError, and nothing is sent, if the roster names another server by now.
        """
        self._take_newest_roster()
        if self._kit.roster.server != self._asked_by:
            raise FederationError("this site's newest roster names another server than the one that asked")
        asked = message.metadata
        with no_object_id_recompute(), _errors():
            said = signed(content, self._bearing(message, asked.message_id), self._kit.key)
            reply = Message(said, reply_to=message)
            # the server's own times, because this machine's clock may be off
            set_metadata(
                reply,
                created_at=asked.created_at,
                ttl=asked.ttl,
                src_node_id=asked.dst_node_id,
                dst_node_id=SUPERLINK_NODE_ID,
            )
            set_metadata(reply, message_id=reply.object_id)
            response = self._client.PushMessages(
                PushMessagesRequest(
                    node=self._node,
                    messages_list=[message_to_proto(remove_content_from_message(reply))],
                    message_object_trees=[get_object_tree(reply)],
                )
            )
            wanted = set(response.objects_to_push)
            for object_id, one in get_all_nested_objects(reply).items():
                if object_id in wanted:
                    self._client.PushObject(
                        PushObjectRequest(
                            node=self._node,
                            run_id=asked.run_id,
                            session_id=response.session_id,
                            object_id=object_id,
                            object_content=one.deflate(),
                        )
                    )

    def _objects(self, run: int, parts: list[str]) -> dict[str, bytes]:
        """A message's objects; FederationError if they take more memory than a message may."""
        contents, room = {}, most_of_message()
        for part in parts:
            request = PullObjectRequest(node=self._node, run_id=run, object_id=part)
            contents[part] = self._client.PullObject(request).object_content
            room -= len(contents[part])
            if room < 0:
                raise FederationError(
                    "the server's message takes more than a quarter of this machine's memory"
                )
        return contents

    def _believed(self, bare: Message, contents: dict[str, bytes]) -> Message:
        """The decoded message; FederationError unless the server has signed it for this site."""
        try:
            if unfolded(contents) > most_of_message():
                raise ValueError("it decompresses to more than a message may hold")
            whole = inflate_object_from_contents(bare.metadata.message_id, contents)
        except Exception as error:  # Flower's parser may raise anything on a server's bytes
            raise FederationError(f"the server's message cannot be read ({type(error).__name__})") from None
        if not isinstance(whole, Message) or not whole.has_content():
            raise FederationError("the server's message cannot be read")
        if whole.metadata.dst_node_id != self._node.node_id or whole.metadata.reply_to_message_id:
            raise FederationError("the server's message is for another site")
        content = checked(whole.content, self._bearing(whole), self._kit.roster.server)
        set_metadata(whole, message_id=bare.metadata.message_id)
        return make_message(metadata=whole.metadata, content=content)

    def _bearing(self, message: Message, answers: str = "") -> Bearing:
        return Bearing.of(self._kit.roster.federation, message.metadata, self._kit.key.public, answers)


def _told(response: PullMessagesResponse) -> tuple[Message, list[str]]:
    """The message without its content, and the ids of its objects; FederationError if it is malformed."""
    try:
        tree = response.message_object_trees[0]
        bare = message_from_proto(response.messages_list[0])
        return bare, list({part.object_id: None for part in iterate_object_tree(tree)})
    except Exception as error:  # on a server's bytes, as above
        raise FederationError(f"the server's message cannot be read ({type(error).__name__})") from None


def most_of_message() -> int:
    """The most bytes that one message may take here: a quarter of the machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4


class _SignedAndBounded:
    """Signs each whole request of Flower's client, and reads the response itself.

    Flower's client would decompress every response, even an error's text, and keep all of it. clock: for the
    requests' times, set when the site joins.
    """

    def __init__(self, kit: SiteKit, http: httpx.Client) -> None:
        self._kit, self._http, self.clock = kit, http, SteadyClock()

    def intercept(self, context: ProtobufRequestContext, call_next: ProtobufCall) -> httpx.Response:
        request = context.request
        request.headers["accept-encoding"] = "identity"
        request.extensions["timeout"] = _SECONDS.as_dict()
        request.headers.update(
            sign_request(
                self._kit.key,
                self._kit.roster.federation,
                request.method,
                request.url.path,
                request.content,
                self.clock,
            )
        )
        answer = self._http.send(request, stream=True)
        try:
            return httpx.Response(answer.status_code, content=_bounded(answer), request=request)
        finally:
            answer.close()


def _bounded(answer: httpx.Response) -> bytes:
    """The raw body; LinkLostError if it is compressed or too long."""
    if answer.headers.get("content-encoding", "identity").lower() != "identity":
        raise LinkLostError("what answers there is not an fl_dp server: its answer is compressed")
    content, most = bytearray(), _MOST_BYTES if answer.is_success else _MOST_WORDS
    for chunk in answer.iter_raw():
        content += chunk
        if len(content) > most:
            raise LinkLostError(f"what answers there is not an fl_dp server: more than {most} bytes came")
    return bytes(content)


@contextmanager
def _errors() -> Iterator[None]:
    """Convert the errors of a request to LinkLostError or LinkRefusedError."""
    try:
        yield
    except httpx.HTTPStatusError as error:
        status = error.response.status_code
        if status >= httpx.codes.INTERNAL_SERVER_ERROR or status == httpx.codes.TOO_MANY_REQUESTS:
            raise LinkLostError(f"HTTP status {status}") from None
        raise LinkRefusedError(status, one_line(error.response.text)) from None
    except httpx.HTTPError as error:
        raise LinkLostError(str(error) or type(error).__name__) from None
    except ValueError as error:  # from Flower's client, for bytes that it cannot read
        raise LinkLostError(f"what answers there is not an fl_dp server: {error}") from None
