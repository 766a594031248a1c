"""`--metrics`: health and numbers of a server, for its operator alone, on a socket in the run's folder.

Nothing here tells what data have spent or have left, or how many records there are: no budget, no epsilon, no
count of records, and nothing that a client has written.
"""

import json
import logging
import os
import re
import shutil
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from typing import TYPE_CHECKING, Any

from fl_dp.errors import ConfigError
from fl_dp.federation.link.hub import Hub
from fl_dp.federation.link.listener import ASGI, DOOR
from fl_dp.federation.security import SECURITY

if TYPE_CHECKING:
    from prometheus_client import Metric

_LONGEST_PATH = 107  # bytes, of a Unix socket on Linux
_MOST_REASONS = 50
_IDLE_SECONDS = 5.0


class Refusals(logging.Handler):
    """Counts security events by kind, and requests by the server's own words, without numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[tuple[str, str]] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        event, reason = str(record.__dict__.get("event")), ""
        if event == "request refused":  # the reason of a failed join may have words of its client
            reason = re.sub(r"\d+", "N", record.getMessage().partition(":")[0])
        if (event, reason) not in self.counts and len(self.counts) >= _MOST_REASONS:
            reason = "other"
        self.counts[event, reason] += 1


@dataclass(eq=False, slots=True)
class RunMetrics:
    """The collector that Prometheus reads. rounds: how many are over."""

    hub: Hub
    folder: Path
    rounds: Callable[[], int]
    refusals: Refusals = field(default_factory=Refusals)
    moved: Counter[str] = field(default_factory=Counter)  # bytes, by direction

    def health(self) -> dict[str, Any]:
        serves = any(thread.name == DOOR for thread in threading.enumerate())
        return {
            "status": "ok" if serves else "the port is not served",
            "rounds_done": self.rounds(),
            "sites_here": len(self.hub.here()),
        }

    def collect(self) -> "Iterator[Metric]":
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        def gauge(name: str, words: str, value: float) -> GaugeMetricFamily:
            return GaugeMetricFamily(f"fl_dp_{name}", words, value=value)

        yield gauge("rounds_done", "Rounds that are done.", self.rounds())
        yield gauge("sites_here", "Sites that have sent a request recently.", len(self.hub.here()))
        yield gauge("sites_of_roster", "Sites of the roster.", len(self.hub.roster.sites))
        yield gauge("disk_free_bytes", "Free bytes in the run's folder.", shutil.disk_usage(self.folder).free)
        refused = CounterMetricFamily(
            "fl_dp_security_events", "Refusals and bans.", labels=["event", "reason"]
        )
        for (event, reason), count in sorted(self.refusals.counts.copy().items()):
            refused.add_metric([event, reason], count)
        yield refused
        moved = CounterMetricFamily("fl_dp_bytes", "Bodies of requests and answers.", labels=["direction"])
        for direction in ("received", "sent"):
            moved.add_metric([direction], self.moved[direction])
        yield moved

    def counted(self, app: ASGI) -> ASGI:
        """Wrap the application to count its bytes."""

        async def counting(scope: Any, receive: Any, send: Any) -> None:
            async def received() -> Any:
                event = await receive()
                self.moved["received"] += len(event.get("body", b""))
                return event

            async def sent(event: Any) -> None:
                self.moved["sent"] += len(event.get("body", b""))
                await send(event)

            await app(scope, received, sent)

        return counting


@contextmanager
def metrics_served(metrics: RunMetrics, path: Path) -> Iterator[None]:
    """Answer GET /health and GET /metrics at the Unix socket `path`, which only its owner may use.

    ConfigError if it cannot be opened.
    """
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.exposition import CONTENT_TYPE_LATEST

    registry = CollectorRegistry()
    registry.register(metrics)

    class Handler(BaseHTTPRequestHandler):
        timeout = _IDLE_SECONDS

        def do_GET(self) -> None:
            if self.path == "/metrics":
                self._answer(200, CONTENT_TYPE_LATEST, generate_latest(registry))
            elif self.path == "/health":
                health = metrics.health()
                status = 200 if health["status"] == "ok" else 503
                self._answer(status, "application/json", json.dumps(health).encode())
            else:
                self._answer(404, "text/plain", b"/health and /metrics are served\n")

        def _answer(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:
            """Log nothing: only this user can ask."""

    logger = logging.getLogger(SECURITY)
    with _Server(_owners_socket(path), Handler) as server:
        logger.addHandler(metrics.refusals)
        thread = threading.Thread(target=server.serve_forever, daemon=True, name="metrics")
        thread.start()
        try:
            yield
        finally:
            logger.removeHandler(metrics.refusals)
            server.shutdown()
            thread.join()
            path.unlink(missing_ok=True)


class _Server(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True

    def __init__(self, listener: socket.socket, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(listener.getsockname(), handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that has disconnected."""


def _owners_socket(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    try:
        if len(os.fsencode(path)) > _LONGEST_PATH:
            raise OSError("its path is too long; name another folder, --out DIR")
        with suppress(FileNotFoundError):
            if path.is_socket():  # left by a server that was killed
                path.unlink()
        os.fchmod(listener.fileno(), 0o600)  # before it has a name
        listener.bind(str(path))
        listener.listen()
    except OSError as error:
        listener.close()
        raise ConfigError(f"{path}: cannot serve --metrics there: {error}.") from None
    return listener
