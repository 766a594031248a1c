"""Strangers at a server's port, from a thousand addresses of this machine: idle ones, floods, and garbage.

Runs as `python -m benchmarks.soak.strangers PORT COUNTS`. Every WAVE seconds it tries to hold MOST
connections at once, and between waves opens RATE a second. COUNTS: a file that says how far it has come.
"""

import errno
import json
import os
import random
import resource
import select
import socket
import ssl
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

MOST, RATE, WAVE = 10_000, 200, 90.0
SHARED = "127.1.0.1"  # a tenth of them come from there, and so do sites
_OTHER_FILES = 200
_TALKERS = 8  # that get as far as TLS, at once
_NO_PORT = 24  # IP_BIND_ADDRESS_NO_PORT: the port is chosen when it connects
_TICK = 0.05
_SAID = (  # within TLS, a byte a second after it
    b"",
    b"\x16\x03\x01" * 100,
    b"POST /v1/fleet/activate-node HTTP/1.1\r\nhost: a\r\nx: ",
    b"POST /v1/fleet/activate-node HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000\r\n\r\n",
)


class Strangers:
    def __init__(self, port: int) -> None:
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.most = MOST if hard == resource.RLIM_INFINITY else min(MOST, hard - _OTHER_FILES)
        self.counts: Counter[str] = Counter(wished=MOST, descriptors=self.most)
        self._port, self._poll, self._due, self._ticked = port, select.epoll(), 0.0, time.monotonic()
        self._begun: dict[int, tuple[socket.socket, str]] = {}  # by descriptor: not known to be connected
        self._held: dict[int, socket.socket] = {}
        for _ in range(_TALKERS):
            threading.Thread(target=self._talk, daemon=True).start()

    def tick(self) -> None:
        """A moment of connecting, and of hearing who was sent away."""
        refused = self.counts["not connected"]
        now = time.monotonic()
        self._due += RATE * (now - self._ticked)
        self._ticked = now
        for _ in range(min(int(self._due), 500, self.most - len(self._held) - len(self._begun))):
            self._open(random.choices(["idle", "flood", "garbage"], [0.8, 0.1, 0.1])[0])
            self._due -= 1
        for descriptor, event in self._poll.poll(_TICK, 2000):
            begun = self._begun.pop(descriptor, None)
            if begun is None or event & (select.EPOLLERR | select.EPOLLHUP):
                made = begun[0] if begun else self._held.pop(descriptor)
                self.counts["not connected" if begun else "ended by the server"] += 1
                made.close()
            else:
                self._connected(*begun)
        if self.counts["not connected"] > refused:  # the server is not there
            time.sleep(0.5)
        self.counts["most at once"] = max(self.counts["most at once"], len(self._held))

    def wave(self) -> None:
        self._due = self.most

    def _open(self, kind: str) -> None:
        made = socket.socket()
        made.setblocking(False)
        _bind(made)
        if made.connect_ex(("127.0.0.1", self._port)) not in (0, errno.EINPROGRESS):
            self.counts["not connected"] += 1  # nobody serves the port now
            made.close()
            return
        self.counts["tried"] += 1
        self._begun[made.fileno()] = made, kind
        self._poll.register(made, select.EPOLLOUT | select.EPOLLRDHUP)

    def _connected(self, made: socket.socket, kind: str) -> None:
        self.counts[kind] += 1
        if kind == "flood":
            made.close()
            return
        if kind == "garbage":
            with suppress(OSError):
                made.send(os.urandom(512))
        self._held[made.fileno()] = made
        self._poll.modify(made, select.EPOLLRDHUP)

    def _talk(self) -> None:
        """TLS, and then no request that is one."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        while True:
            time.sleep(random.uniform(0, 1))
            with suppress(OSError), socket.socket() as plain:
                plain.settimeout(10)
                _bind(plain)
                plain.connect(("127.0.0.1", self._port))
                with context.wrap_socket(plain) as made:
                    self.counts["TLS"] += 1
                    made.sendall(random.choice(_SAID))
                    made.settimeout(1)
                    for _ in range(60):
                        with suppress(TimeoutError):
                            answer = made.recv(4096)
                            self.counts["401 to TLS"] += answer.startswith(b"HTTP/1.1 401")
                            if not answer:
                                break
                        made.sendall(b"a")


def _bind(made: socket.socket) -> None:
    number = 0 if random.random() < 0.1 else random.randrange(1000)
    made.setsockopt(socket.IPPROTO_IP, _NO_PORT, 1)
    made.bind((f"127.1.{number // 250}.{number % 250 + 1}", 0))


def main() -> None:
    strangers, counts = Strangers(int(sys.argv[1])), Path(sys.argv[2])
    wave = told = -WAVE
    while True:
        now = time.monotonic()
        if now - wave >= WAVE:
            wave = now
            strangers.wave()
        strangers.tick()
        if now - told >= 1:
            told = now
            counts.write_text(json.dumps(strangers.counts))


if __name__ == "__main__":
    main()
