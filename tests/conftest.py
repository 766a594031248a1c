"""What all tests may use: the repository's `scripts`, however pytest was started; and a process that may take
little memory.
"""

import os
import resource
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# The same inputs in every run of `make test`; `make test-all` draws others, and more of them.
settings.register_profile("steady", derandomize=True, deadline=None, database=None)
settings.register_profile("long", max_examples=1000, deadline=None, print_blob=True)
settings.load_profile("steady")

sys.path.append(str(Path(__file__).parents[1]))  # behind the fl_dp that is tested
if "PYTEST_XDIST_WORKER" in os.environ:  # threads of several processes would wait for one another's cores
    os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="session", autouse=True)
def no_ledger_at_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What real clients keep without being asked is kept elsewhere than in the home of whoever tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture
def little_memory() -> Iterator[None]:
    """4 GiB of address space more than now: what takes much more is a MemoryError."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**32, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)
