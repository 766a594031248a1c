"""A run that was made once, and a copy of it for each test to forge."""

from pathlib import Path

import pytest
from verify.made_run import MadeRun, run_in


@pytest.fixture(scope="session")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> MadeRun:
    """Not to be changed."""
    return run_in(tmp_path_factory.mktemp("made"))


@pytest.fixture
def made_run(untouched: MadeRun, tmp_path: Path) -> MadeRun:
    return untouched.copy(tmp_path / "run")
