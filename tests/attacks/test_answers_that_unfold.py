"""A hostile server against the main process of a client: what it answers is read before anything is checked.

An error's text of 0.3 MB, compressed, became 1 GB there; a body without end was kept as long as it came.
"""

import gzip
import hashlib
import socket
import ssl
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import closing, suppress

import pytest
from federation.link.wired import Federation
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from fl_dp.errors import FederationError
from fl_dp.federation.link import site_link
from fl_dp.federation.link.site_link import LinkLostError, SiteLink
from fl_dp.kits.kit import ServerKit

BOMB = gzip.compress(bytes(2**27), 9)  # 130 kB of 128 MiB
LITTLE = 2**25  # bytes of memory; each attack sends or unfolds to four times as much
CHUNK = b"10000\r\n" + bytes(2**16) + b"\r\n"

Answer = Callable[[ssl.SSLSocket], object]


def compressed(status: str) -> Answer:
    head = f"HTTP/1.1 {status}\r\ncontent-encoding: gzip\r\ncontent-length: {len(BOMB)}\r\n\r\n".encode()
    return lambda made: made.sendall(head + BOMB)


def endless(status: str) -> Answer:
    def answer(made: ssl.SSLSocket) -> None:
        made.sendall(f"HTTP/1.1 {status}\r\ntransfer-encoding: chunked\r\n\r\n".encode())
        for _ in range(2**27 // len(CHUNK)):
            made.sendall(CHUNK)

    return answer


class Hostile:
    """A port that has the server's own certificate, and answers one request."""

    def __init__(self, kit: ServerKit) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(kit.tls_certificate, kit.tls_key)
        self._port = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._port.getsockname()[1]}"
        self.asked: list[bytes] = []

    def answer_once(self, answer: Answer) -> threading.Thread:
        def run() -> None:
            made, _ = self._port.accept()
            with suppress(OSError), self._context.wrap_socket(made, server_side=True) as secure:
                self.asked.append(secure.recv(2**16))
                answer(secure)
                while secure.recv(2**16):
                    pass

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    def close(self) -> None:
        self._port.close()


@pytest.fixture
def hostile(linked: Federation) -> Iterator[Hostile]:
    with closing(Hostile(linked.server)) as made:
        yield made


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (compressed("500 x"), "compressed"),
        (compressed("200 x"), "compressed"),
        (endless("500 x"), "more than 65536 bytes"),
        (endless("200 x"), "more than 1000000 bytes"),
        (endless("302 x"), "more than 65536 bytes"),
    ],
    ids=["a compressed error", "a compressed answer", "an endless error", "an endless answer", "elsewhere"],
)
def test_no_answer_takes_more_memory_than_it_may(
    linked: Federation, hostile: Hostile, monkeypatch: pytest.MonkeyPatch, answer: Answer, why: str
) -> None:
    monkeypatch.setattr(site_link, "_MOST_BYTES", 1_000_000)
    thread = hostile.answer_once(answer)
    with closing(SiteLink(linked.sites["north"], hostile.address)) as link:
        tracemalloc.start()
        try:
            with pytest.raises(LinkLostError, match=why):
                link.join()
            assert tracemalloc.get_traced_memory()[1] < LITTLE
        finally:
            tracemalloc.stop()
    thread.join()
    assert b"accept-encoding: identity\r\n" in hostile.asked[0].lower()


def test_a_message_of_too_many_parts_is_not_collected(
    linked: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = linked.joined("north")
    monkeypatch.setattr(site_link, "most_of_message", lambda: 2**20)
    weights = RecordDict({"w": ArrayRecord({"w": Array("float32", (2**19,), "s", bytes(2**21))})})
    linked.ask("north", content=weights)
    with pytest.raises(FederationError, match="a quarter of this machine's memory"):
        link.next_message()


def test_a_chunk_that_is_named_many_times_is_not_unfolded(
    linked: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = linked.joined("north")
    linked.ask("north", content=RecordDict({"plan": ConfigRecord({"steps": 3})}))
    chunk = b"ArrayChunk  1000\0" + bytes(1000)
    name = hashlib.sha256(chunk).hexdigest()
    body = b'{"arraychunk_ids": [' + b",".join([b"0"] * 5000) + b"]}"
    array = f"Array {name} {len(body)}".encode() + b"\0" + body
    monkeypatch.setattr(site_link, "most_of_message", lambda: 2**20)
    lie = {name: chunk, hashlib.sha256(array).hexdigest(): array}
    monkeypatch.setattr(link, "_objects", lambda run, parts: lie)
    monkeypatch.setattr(site_link, "inflate_object_from_contents", lambda *_: pytest.fail("it is unfolded"))
    with pytest.raises(FederationError, match="cannot be read"):
        link.next_message()
