"""Serves the door on a port, over TLS, in its own thread. Connections are limited before TLS begins."""

import asyncio
import errno
import logging
import resource
import socket
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from fl_dp.durable_files import version_of
from fl_dp.errors import ConfigError, LaunchError
from fl_dp.federation.link.places import Place, Places
from fl_dp.kits.certificates import check_in_time, check_pair
from fl_dp.kits.kit import ServerKit

logger = logging.getLogger("fl_dp")

_START_SECONDS = 30.0
_END_SECONDS = 3  # for running requests when the server ends
_MOST_CONNECTIONS = 4096
_IDLE_SECONDS = 30
_TLS_SECONDS = 5.0  # from connecting to the end of the TLS handshake
_LEAST_SECONDS = 0.1  # for the handshake itself, if it begins late
_FIRST_SECONDS = 30.0  # from the handshake to the headers of the first request
_ANSWER_SECONDS = 1.0  # for a refusal to arrive
_MOST_HEADER_BYTES = 2**14
_OTHER_FILES = 512  # descriptors reserved for other files; half of all if there are few
_PAUSE_SECONDS = 0.5  # before accepting again when no descriptor is left
_LOOK_SECONDS = 1.0  # between two checks for a new certificate
_TOLD_SECONDS = 60.0  # between two log lines about the same trouble
ASGI = Callable[[Any, Any, Any], Awaitable[None]]  # the door, or a wrapper of it
_SHORT = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


@contextmanager
def listening(door: ASGI, kit: ServerKit, host: str, port: int) -> Iterator[int]:
    """Serve within this context; yields the port, a free one if `port` is 0. ConfigError if it is taken."""
    most = _room_for_connections()
    listener = _listener(host, port)
    config = uvicorn.Config(
        door,
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        http="h11",
        h11_max_incomplete_event_size=_MOST_HEADER_BYTES,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=_END_SECONDS,
    )
    logging.getLogger("uvicorn").setLevel(logging.ERROR)  # it would warn of each stranger; the log is bounded
    server = _Server(config, _Certificate(kit), Places(most))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True, name="door")
    thread.start()
    try:
        _wait_until_started(server, thread)
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(_END_SECONDS + 2)
        listener.close()


class _Server(uvicorn.Server):
    """uvicorn, but this class accepts the connections. uvicorn would count them only after the TLS handshake,
    and wait a minute for each handshake.
    """

    def __init__(self, config: uvicorn.Config, certificate: "_Certificate", places: Places) -> None:
        super().__init__(config)
        self._certificate, self._places = certificate, places
        self._accepting: list[asyncio.Task[None]] = []
        self._agreeing: set[asyncio.Task[None]] = set()  # in the TLS handshake
        self._told = -_TOLD_SECONDS

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self.lifespan.startup()
        self.servers = []  # none of uvicorn's own
        self._accepting = [asyncio.create_task(self._accept(one)) for one in sockets or ()]
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for task in (*self._accepting, *self._agreeing):
            task.cancel()
        await super().shutdown(sockets)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        listener.setblocking(False)
        while True:
            try:
                made, address = await loop.sock_accept(listener)
            except OSError as error:  # for example a connection that has already ended
                if error.errno in _SHORT:
                    await self._wait_for_descriptors(error)
                continue
            place = self._places.enter(address[0], partial(_end, made))
            if place is None:
                made.close()
            else:
                task = asyncio.create_task(self._agree(made, place))
                self._agreeing.add(task)
                task.add_done_callback(self._agreeing.discard)
            await asyncio.sleep(0)  # let other tasks run even while connections keep coming

    async def _agree(self, made: socket.socket, place: Place) -> None:
        """Start TLS, then HTTP; a connection that fails before that loses its place."""
        loop = asyncio.get_running_loop()
        until = loop.time() + _TLS_SECONDS

        def protocol() -> _Bounded:
            return _Bounded(self.config, self.server_state, self._places, place, loop)

        try:
            async with asyncio.timeout_at(until):
                await _first_byte(made)
            await loop.connect_accepted_socket(
                protocol,
                made,
                ssl=self._certificate.context(),
                ssl_handshake_timeout=max(until - loop.time(), _LEAST_SECONDS),
                ssl_shutdown_timeout=_ANSWER_SECONDS,
            )
        except BaseException as error:
            self._places.leave(place)
            made.close()
            if not isinstance(error, OSError):  # OSError: the connection's, TLS's, or a TimeoutError
                raise

    async def _wait_for_descriptors(self, error: OSError) -> None:
        """Pause when this process, or the machine, has no descriptor left for connections."""
        if time.monotonic() - self._told >= _TOLD_SECONDS:
            self._told = time.monotonic()
            logger.warning("no connection can be accepted for a moment: %s", error.strerror)
        self._places.relieve()
        await asyncio.sleep(_PAUSE_SECONDS)


async def _first_byte(made: socket.socket) -> None:
    """Return when there is a byte to read. Most strangers send none, and cost no TLS then."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(made, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(made)
    if not made.recv(1, socket.MSG_PEEK):
        raise ConnectionResetError("it ended before it began")


def _end(made: socket.socket) -> None:
    """End a connection, whether TLS, HTTP or nothing reads from it yet."""
    with suppress(OSError):  # it has already ended
        made.shutdown(socket.SHUT_RDWR)


class _Certificate:
    """The certificate in the server's kit. A new one is used while the server runs."""

    def __init__(self, kit: ServerKit) -> None:
        self._kit = kit
        self._seen = self._version()
        self._context = self._read()
        self._looked = time.monotonic()
        self._told = -_TOLD_SECONDS

    def context(self) -> ssl.SSLContext:
        """For the next connection. If a new certificate cannot be used, logs why and keeps the one before."""
        if time.monotonic() - self._looked >= _LOOK_SECONDS:
            self._looked = time.monotonic()
            version = self._version()
            if version != self._seen:
                self._take(version)
        return self._context

    def _take(self, version: tuple[int, ...]) -> None:
        try:
            check_in_time(self._kit.tls_certificate)
            check_pair(self._kit.tls_certificate, self._kit.tls_key, self._kit.roster.certificate)
            self._context = self._read()
        except (ConfigError, OSError) as error:  # only one of its files is new yet, or no descriptor is left
            if time.monotonic() - self._told >= _TOLD_SECONDS:
                self._told = time.monotonic()
                logger.error("the new certificate is not used: %s", error)
            return
        self._seen = version
        logger.info("a new certificate is used from now on")

    def _read(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self._kit.tls_certificate, self._kit.tls_key)
        return context

    def _version(self) -> tuple[int, ...]:
        return version_of(self._kit.tls_certificate, self._kit.tls_key)


class _Bounded(H11Protocol):
    """A connection that ends unless a request comes soon.

    h11 bounds headers; httptools, which uvicorn prefers, buffers without limit. uvicorn itself would wait for
    a first request for ever.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: Any,
        places: Places,
        place: Place,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """In a request's state the door finds `signed`, to call with the key of the site, and `cut`."""
        state = {"signed": lambda site: places.sign(place, site), "cut": self._cut}
        super().__init__(config, server_state, state, _loop=loop)
        self._places, self._place = places, place

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.loop.call_later(_FIRST_SECONDS, self._end_if_nothing_came)

    def connection_lost(self, exc: Exception | None) -> None:
        self._places.leave(self._place)
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """End the connection without an answer if it does not speak HTTP."""
        self.transport.abort()

    def _end_if_nothing_came(self) -> None:
        if not self.cycle:
            self.transport.abort()

    async def _cut(self) -> None:
        """Stop reading and end the connection, after a moment for the answer to arrive."""
        deadline = time.monotonic() + _ANSWER_SECONDS
        while not self.transport.is_closing() and time.monotonic() < deadline:
            await asyncio.sleep(_ANSWER_SECONDS / 20)
        self.transport.abort()
        while self in self.connections:
            await asyncio.sleep(0.001)


def _room_for_connections() -> int:
    """The most connections that the limit of open files allows; raises that limit to the hard limit.

    Some descriptors are reserved. Otherwise strangers could hold all, and the run's results not be written.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard == resource.RLIM_INFINITY:
        return _MOST_CONNECTIONS
    return min(_MOST_CONNECTIONS, hard - min(_OTHER_FILES, hard // 2))


def check_port(host: str, port: int) -> None:
    """ConfigError if the port is taken, or is not this machine's. Call it before anything is written."""
    _listener(host, port).close()


def _listener(host: str, port: int) -> socket.socket:
    family, both = socket.AF_INET6 if ":" in host else socket.AF_INET, host == "::"
    try:
        return socket.create_server((host, port), family=family, backlog=512, dualstack_ipv6=both)
    except (OSError, OverflowError, ValueError) as error:  # ValueError: no IPv6 here
        raise ConfigError(f"{host}:{port}: cannot listen there: {error}; name another address.") from None


def _wait_until_started(server: uvicorn.Server, thread: threading.Thread) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline:
            raise LaunchError("the server's port could not be served; its log says why.")
        time.sleep(0.01)
