import os
import subprocess
import sys
import time

import pytest

from benchmarks.simulation.usage import MARK, members, usage

CHILD = "import time; end = time.process_time() + 0.3\nwhile time.process_time() < end: pass\ntime.sleep(900)"
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {CHILD!r}], env={{}})"


def is_child(title):
    return "process_time" in title and "subprocess" not in title


@pytest.fixture
def family():
    """A process with a mark, and its child, which has lost its environment as Ray's workers have."""
    process = subprocess.Popen([sys.executable, "-c", PARENT], env={**os.environ, MARK: "family"})
    yield process
    for pid in members("family"):
        os.kill(pid, 9)
    process.wait()


def test_children_are_found_by_their_parents_and_their_time_is_counted(family):
    end = time.monotonic() + 300
    while (seen := usage("family", is_child)).training < 0.25 and time.monotonic() < end:
        time.sleep(0.01)
    assert len(members("family")) == 2
    assert members("nobody has this") == set()
    assert 0.25 <= seen.training <= seen.command <= seen.machine
