"""A cable between a client and its server: slow, lossy, and it can be cut. A proxy of bytes, under TLS."""

import random
import socket
import threading
import time
from contextlib import suppress

_BLOCK = 65536
_DELAY = 0.01  # seconds in the mean, for each block of bytes, in each direction
_LOSS, _STALL = 0.003, (1.0, 4.0)  # of the blocks are lost: TCP sends them again, after so many seconds
_BREAK = 0.0005  # of the blocks are a connection's last


class Cable:
    """Passes connections on to port `target` of this machine, as if they came from the address `source`.

    port: where it takes them. chance: of delay and loss. lost, broken: how often.
    """

    def __init__(self, target: int, source: str, chance: random.Random) -> None:
        self._target, self._source, self._chance = target, source, chance
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.lost = self.broken = 0
        self._ends: set[socket.socket] = set()
        self._is_cut = False
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Nothing passes any more, and nobody is told: as with a cable."""
        self._is_cut = True

    def mend(self) -> None:
        self._is_cut = False
        for end in list(self._ends):  # what was lost on the way cannot be made up for
            _close(end)
        self._ends.clear()

    def _accept(self) -> None:
        while True:
            near, _ = self._listener.accept()
            threading.Thread(target=self._connect, args=(near,), daemon=True).start()

    def _connect(self, near: socket.socket) -> None:
        try:
            far = socket.create_connection(
                ("127.0.0.1", self._target), timeout=10, source_address=(self._source, 0)
            )
        except OSError:
            near.close()
            return
        far.settimeout(None)
        self._ends |= {near, far}
        threading.Thread(target=self._pass, args=(far, near), daemon=True).start()
        self._pass(near, far)

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while (data := source.recv(_BLOCK)) and self._arrives():
                if not self._is_cut:
                    sink.sendall(data)
        for end in (source, sink):
            self._ends.discard(end)
            _close(end)

    def _arrives(self) -> bool:
        """Wait as long as a block is under way; False if the connection breaks."""
        time.sleep(self._chance.expovariate(1 / _DELAY))
        if self._chance.random() < _LOSS:
            self.lost += 1
            time.sleep(self._chance.uniform(*_STALL))
        if self._chance.random() < _BREAK:
            self.broken += 1
            return False
        return True


def _close(end: socket.socket) -> None:
    """Also wakes who waits for it."""
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
