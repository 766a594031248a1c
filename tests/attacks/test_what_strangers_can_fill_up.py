"""Strangers without a key who ask for nothing: they hold connections, and send what never ends.

uvicorn's usual parser kept 100 MiB of one header, in quadratic time, and waited for ever for a connection's
first request. Connections were counted once TLS was agreed on: plain ones took all of the process's
descriptors, and it ended where it could not write its results.
"""

import os
import resource
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest
from federation.link.wired import Federation, Front

from fl_dp.federation.link import listener, places
from fl_dp.federation.link.site_link import SiteLink

FILES = 200  # that the attacked server may open
SERVER = """
import resource, sys
from pathlib import Path
limit = int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_NOFILE, (limit // 2, limit))
from fl_dp.durable_files import write_whole
from fl_dp.federation.link.door import Door
from fl_dp.federation.link.hub import Hub
from fl_dp.federation.link.listener import listening
from fl_dp.kits.kit import ServerKit
kit = ServerKit.load(Path(sys.argv[1]))
with listening(Door(Hub(kit.roster)), kit, "127.0.0.1", 0) as port:
    print(port, flush=True)
    for line in sys.stdin:
        write_whole(Path(sys.argv[2]), lambda file: file.write(line.encode()))
        print("written", flush=True)
"""


@contextmanager
def few_files(keys: Front, result: Path, files: int = FILES) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A server in a process that may open so many files; for each line it is given it writes a result."""
    command = [sys.executable, "-c", SERVER, str(keys.server.folder), str(result), str(files)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        try:
            yield process, int(line)
        finally:
            process.kill()


def strangers(port: int, number: int, stack: ExitStack) -> list[socket.socket]:
    """Plain connections from many addresses that say nothing."""
    found = []
    for one in range(number):
        made = stack.enter_context(socket.socket())
        made.settimeout(5)
        made.bind((f"127.0.1.{one % 250 + 1}", 0))
        made.connect(("127.0.0.1", port))
        found.append(made)
    return found


def test_more_silent_connections_than_files_neither_end_a_server_nor_keep_a_site_out(
    keys: Front, tmp_path: Path
) -> None:
    result = tmp_path / "result"
    with few_files(keys, result) as (process, port), ExitStack() as stack:
        assert process.stdin is not None
        assert process.stdout is not None
        strangers(port, 2 * FILES, stack)
        begun = time.monotonic()
        while (held := len(os.listdir(f"/proc/{process.pid}/fd"))) < FILES // 4:  # it accepts them first
            assert time.monotonic() - begun < 20
        assert held < FILES * 3 // 4  # the rest is its own
        begun = time.monotonic()
        with closing(SiteLink(keys.sites["north"], f"127.0.0.1:{port}")) as link:
            link.join()
            strangers(port, FILES, stack)
            link.beat()  # in the connection that it has
        assert time.monotonic() - begun < 10
        process.stdin.write("of the round\n")
        process.stdin.flush()
        assert process.stdout.readline() == "written\n"
        assert result.read_text() == "of the round\n"
        assert process.poll() is None


def test_strangers_take_little_memory_whether_they_are_silent_or_go_as_far_as_tls(
    keys: Front, tmp_path: Path
) -> None:
    """TLS took 50 KiB for each from the moment that it was accepted, before a byte had come."""
    trust = ssl.create_default_context(cadata=keys.server.roster.certificate)
    with few_files(keys, tmp_path / "result", 4000) as (process, port), ExitStack() as stack:
        first = trust.wrap_socket(strangers(port, 1, stack)[0], server_hostname="127.0.0.1")
        stack.enter_context(first)  # what it brings into memory, others do not
        before = kib(process)
        plain = strangers(port, 1000, stack)
        begun = time.monotonic()
        while len(os.listdir(f"/proc/{process.pid}/fd")) < 1000:
            assert time.monotonic() - begun < 5
        assert kib(process) - before < 1000 * 16
        for one in plain[:200]:
            stack.enter_context(trust.wrap_socket(one, server_hostname="127.0.0.1"))
        assert kib(process) - before < 1000 * 16 + 200 * 192


def kib(process: subprocess.Popen[str]) -> int:
    """Of memory."""
    return int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def test_whoever_does_not_begin_tls_is_soon_gone(linked: Federation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "_TLS_SECONDS", 0.2)
    with socket.create_connection(("127.0.0.1", linked.port), timeout=5) as plain:
        begun = time.monotonic()
        assert plain.recv(1) == b""
        assert time.monotonic() - begun < 3


def test_a_server_whose_descriptors_are_gone_waits_and_goes_on(
    linked: Federation, caplog: pytest.LogCaptureFixture
) -> None:
    """Others of its process have taken them: it says so once, and accepts again when they are back."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[socket.socket] = []
    with ExitStack() as stack:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 9, hard))
        try:
            with suppress(OSError):  # too many open files
                while True:
                    taken.append(stack.enter_context(socket.socket()))
            taken.pop().close()
            stack.enter_context(socket.create_connection(("127.0.0.1", linked.port), timeout=5))
            time.sleep(1.5)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert linked.joined("north")
    assert caplog.text.count("no connection can be accepted for a moment: Too many open files") == 1


def test_strangers_do_not_end_the_connection_of_a_site(
    linked: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where they come from its own address, whose places they fill and fill again."""
    for name in ("OF_ADDRESS", "OF_KNOWN_ADDRESS"):
        monkeypatch.setattr(places, name, 4)
    link = linked.joined("north")
    before = list(link._http._transport._pool.connections)  # type: ignore[attr-defined]
    with ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(socket.create_connection(("127.0.0.1", linked.port), timeout=5))
        assert linked.joined("south")  # accepted after all of them
        link.beat()
        assert list(link._http._transport._pool.connections) == before  # type: ignore[attr-defined]


def test_a_refused_body_is_not_read_on(linked: Federation) -> None:
    """It was, as fast as the line is: 2.7 GB in 8 s."""
    sent, chunk = 0, b"a" * 2**16
    with connection(linked) as made:
        made.sendall(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 100000000000\r\n\r\n")
        begun = time.monotonic()
        with suppress(OSError):  # a reset, a broken pipe, or the end of TLS
            while time.monotonic() - begun < 5:
                sent += made.send(chunk)
    assert time.monotonic() - begun < 4
    assert sent < 2**24


def test_a_site_that_comes_and_goes_does_not_fill_the_log(
    linked: Federation, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "fl_dp")
    link = linked.link("north")
    for _ in range(20):
        link.join()
    assert caplog.text.count("site north has joined") == 1


def test_strangers_do_not_fill_the_log(linked: Federation, caplog: pytest.LogCaptureFixture) -> None:
    """uvicorn had a line for each: enough of them, and the operator's own were gone."""
    with connection(linked) as made:
        made.sendall(b"what is no request\r\n\r\n")
        assert ends(made)
    assert caplog.text == ""


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


def test_a_site_keeps_its_connection(linked: Federation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "_FIRST_SECONDS", 0.2)
    link = linked.joined("north")
    time.sleep(0.4)
    link.beat()
