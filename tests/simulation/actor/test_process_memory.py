"""The memory of a process: what it wrote, and nothing that it shares."""

import mmap
import resource
from types import SimpleNamespace

import numpy as np
import pytest

from fl_dp.simulation.actor import process_memory
from fl_dp.simulation.actor.process_memory import keep_freed_memory, own_bytes, peak_growth

SIZE = 256 * 2**20


def test_what_is_written_counts():
    before = own_bytes()
    block = np.ones(SIZE, dtype=np.uint8)
    assert own_bytes() - before > 0.9 * SIZE
    del block


def test_what_is_mapped_from_a_file_does_not_count(tmp_path):
    path = tmp_path / "library"
    path.write_bytes(bytes(SIZE))
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        before = own_bytes()
        assert sum(mapped[:: mmap.PAGESIZE]) == 0  # read each page
        assert own_bytes() - before < 0.1 * SIZE


def test_the_peak_counts_although_it_is_over_when_it_is_asked_for():
    np.ones(2 * SIZE, dtype=np.uint8)  # an older and higher peak
    grown = peak_growth(lambda: np.ones(SIZE, dtype=np.uint8).sum())
    assert grown is not None
    assert 0.9 * SIZE < grown < 1.5 * SIZE
    assert peak_growth(lambda: None) < 0.1 * SIZE


def test_freed_memory_is_used_again_without_asking_the_system():
    keep_freed_memory()
    np.ones(2**22, dtype=np.uint8)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        np.ones(2**22, dtype=np.uint8)  # 1,024 pages
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < 1024


@pytest.mark.parametrize("glibc", [True, False])
def test_glibc_is_told_to_keep_memory_and_another_c_library_is_left_alone(monkeypatch, glibc):
    told: dict[int, int] = {}
    library = SimpleNamespace(mallopt=told.__setitem__) if glibc else SimpleNamespace()
    monkeypatch.setattr(process_memory.ctypes, "CDLL", lambda name: library)
    keep_freed_memory()
    assert told == ({-3: 32 * 2**20, -1: 2**30} if glibc else {})  # M_MMAP_THRESHOLD, M_TRIM_THRESHOLD
