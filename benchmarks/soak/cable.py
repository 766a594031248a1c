"""A cable between a client and its server that can be cut: a proxy of bytes, which TLS passes through."""

import socket
import threading
from contextlib import suppress

_BLOCK = 65536


class Cable:
    """Passes connections on to `port` of this machine. port: where it takes them."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._ends: set[socket.socket] = set()
        self._is_cut = False
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Nothing passes any more, and nobody is told: as with a cable."""
        self._is_cut = True

    def mend(self) -> None:
        self._is_cut = False
        for end in list(self._ends):  # what was lost on the way cannot be made up for
            with suppress(OSError):
                end.close()
        self._ends.clear()

    def _accept(self) -> None:
        while True:
            near, _ = self._listener.accept()
            try:
                far = socket.create_connection(("127.0.0.1", self._target), timeout=5)
            except OSError:
                near.close()
                continue
            self._ends |= {near, far}
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._pass, args=(source, sink), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(_BLOCK):
                if not self._is_cut:
                    sink.sendall(data)
        for end in (source, sink):
            self._ends.discard(end)
            with suppress(OSError):
                end.close()
