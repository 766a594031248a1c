"""Serves the door on a port, by TLS, in a thread of its own."""

import asyncio
import logging
import resource
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from fl_dp.errors import ConfigError, LaunchError
from fl_dp.federation.link.door import Door
from fl_dp.kits.kit import ServerKit

_START_SECONDS = 30.0
_END_SECONDS = 3  # that requests under way have when the server ends
_MOST_CONNECTIONS = 4096
_IDLE_SECONDS = 30
_FIRST_SECONDS = 30.0  # that whoever connects has until its first request's headers are there
_MOST_HEADER_BYTES = 2**14
_OTHER_FILES = 512  # that this process may have open beside connections


@contextmanager
def listening(door: Door, kit: ServerKit, host: str, port: int) -> Iterator[int]:
    """Serve within it; the port, which is a free one if `port` is 0. ConfigError if it is taken."""
    _allow_files(_MOST_CONNECTIONS + _OTHER_FILES)
    listener = _listener(host, port)
    config = uvicorn.Config(
        door,
        ssl_keyfile=str(kit.tls_key),
        ssl_certfile=str(kit.tls_certificate),
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        http=_Bounded,
        h11_max_incomplete_event_size=_MOST_HEADER_BYTES,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=_END_SECONDS,
    )
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True, name="door")
    thread.start()
    try:
        _wait_until_started(server, thread)
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(_END_SECONDS + 2)
        listener.close()


class _Bounded(H11Protocol):
    """A connection that ends unless it soon brings a request; one too many ends at once.

    h11 bounds headers; httptools, which uvicorn prefers, keeps whatever comes. uvicorn itself waits for a
    first request for ever.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > _MOST_CONNECTIONS:
            transport.abort()
            return
        self.loop.call_later(_FIRST_SECONDS, self._end_if_nothing_came)

    def send_400_response(self, msg: str) -> None:
        """Nothing is answered to what is no HTTP, and nothing more of it is read."""
        self.transport.abort()

    def _end_if_nothing_came(self) -> None:
        if not self.cycle:
            self.transport.abort()


def _allow_files(number: int) -> None:
    """Let this process open so many files, where it may: else strangers' connections use all of them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = number if hard == resource.RLIM_INFINITY else min(number, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def check_port(host: str, port: int) -> None:
    """ConfigError where the port is taken, or is none of this machine's; known before anything is written."""
    _listener(host, port).close()


def _listener(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=512)
    except (OSError, OverflowError) as error:
        raise ConfigError(f"{host}:{port}: cannot be served on: {error}; name another address.") from None


def _wait_until_started(server: uvicorn.Server, thread: threading.Thread) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline:
            raise LaunchError("the server's port could not be served; its log says why.")
        time.sleep(0.01)
