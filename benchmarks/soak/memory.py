"""How much memory processes have from round to round, and how fast that grows."""

import threading
import time
from dataclasses import dataclass, field

import numpy as np

from benchmarks.soak.machines import Machine, Server

FIRST = 20  # rounds of a process that do not count: what is kept for ever is not all there yet


@dataclass
class Memory:
    """Watches from the side. machines: by name. most_files: that the server had open at once."""

    server: Server
    machines: dict[str, Machine]
    most_files: int = 0
    _seen: dict[tuple[str, int], dict[int, int]] = field(default_factory=dict)  # by process: KiB by round

    def __post_init__(self) -> None:
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            over = len(self.server.rounds())
            for name, machine in self.machines.items():
                if machine.process is not None and (kib := machine.kib):  # 0: it has just ended
                    self._seen.setdefault((name, machine.process.pid), {})[over] = kib
            self.most_files = max(self.most_files, self.server.files)
            time.sleep(0.5)

    def words(self, name: str) -> str:
        """Of that machine's process that has lived for most rounds."""
        seen = max((kib for (of, _), kib in self._seen.items() if of == name), key=len, default={})
        if len(seen) < FIRST + 10:
            return f"{name}: its memory was not seen for long enough ({len(seen)} rounds)"
        rounds, kib = (np.array(part[FIRST:]) for part in zip(*sorted(seen.items()), strict=True))
        slope = np.polyfit(rounds, kib, 1)[0]
        return (
            f"{name}: memory {kib[0]} KiB in round {rounds[0]}, {kib[-1]} in round {rounds[-1]}; slope "
            f"{slope:+.1f} KiB a round"
        )
