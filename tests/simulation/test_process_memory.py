"""The memory of a process: what it wrote, and nothing that it shares."""

import mmap
from pathlib import Path

import numpy as np

from fl_dp.simulation.process_memory import own_bytes

SIZE = 256 * 2**20


def test_what_is_written_counts() -> None:
    before = own_bytes()
    block = np.ones(SIZE, dtype=np.uint8)
    assert own_bytes() - before > 0.9 * SIZE
    del block


def test_what_is_mapped_from_a_file_does_not_count(tmp_path: Path) -> None:
    path = tmp_path / "library"
    path.write_bytes(bytes(SIZE))
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        before = own_bytes()
        assert sum(mapped[:: mmap.PAGESIZE]) == 0  # read each page
        assert own_bytes() - before < 0.1 * SIZE
