"""Strangers without a key who ask for nothing: they hold connections, and send headers that never end.

uvicorn's usual parser kept 100 MiB of one header, at a cost of the square of its length, and waited for ever
for the first request of a connection.
"""

import resource
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from federation.link.wired import Federation

from fl_dp.federation.link import listener


@contextmanager
def connection(federation: Federation) -> Iterator[ssl.SSLSocket]:
    trust = ssl.create_default_context(cadata=federation.server.roster.certificate)
    with (
        socket.create_connection(("127.0.0.1", federation.port), timeout=5) as plain,
        trust.wrap_socket(plain, server_hostname="127.0.0.1") as made,
    ):
        yield made


def ends(made: ssl.SSLSocket) -> bool:
    """Whether the server ends the connection; what it says before does not count."""
    try:
        while made.recv(4096):
            pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True


def test_a_header_that_never_ends_is_cut_off(linked: Federation) -> None:
    with connection(linked) as made:
        made.sendall(b"POST /v1/fleet/activate-node HTTP/1.1\r\nhost: a\r\nx: ")
        with pytest.raises(OSError):  # noqa: PT011  a reset, or a broken pipe
            made.sendall(b"a" * 2**24)
    assert linked.joined("north")


@pytest.mark.parametrize(
    "said", [b"", b"POST /v1/fleet/activate-node HTTP/1.1\r\nx:"], ids=["nothing", "half"]
)
def test_a_connection_that_asks_for_nothing_ends(
    linked: Federation, monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    monkeypatch.setattr(listener, "_FIRST_SECONDS", 0.2)
    with connection(linked) as made:
        made.sendall(said)
        begun = time.monotonic()
        assert ends(made)
        assert time.monotonic() - begun < 3


def test_a_stranger_has_one_request_in_a_connection(linked: Federation) -> None:
    with connection(linked) as made:
        made.sendall(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000\r\n\r\n")
        assert ends(made)


def test_one_connection_too_many_ends_at_once(linked: Federation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "_MOST_CONNECTIONS", 1)
    with connection(linked), connection(linked) as second:
        begun = time.monotonic()
        assert ends(second)
        assert time.monotonic() - begun < 3


def test_the_server_may_have_a_file_open_for_each_connection(linked: Federation) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert soft >= min(listener._MOST_CONNECTIONS + listener._OTHER_FILES, hard)


def test_a_site_keeps_its_connection(linked: Federation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "_FIRST_SECONDS", 0.2)
    link = linked.joined("north")
    time.sleep(0.4)
    link.beat()
