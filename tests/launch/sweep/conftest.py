"""A sweep's file beside a small config."""

from collections.abc import Callable
from pathlib import Path

import pytest

from fl_dp.launch.sweep.sweep_file import SweepRequest, read_sweep

DIGITS = 'config = "digits.toml"\n'


@pytest.fixture
def read(tmp_path: Path) -> Callable[[str], SweepRequest]:
    """Reads sweep.toml of this text, beside a small config."""
    (tmp_path / "digits.toml").write_text('data = "digits"\nrounds = 2\nlearning-rate = 1.0\n')

    def read_text(text: str) -> SweepRequest:
        file = tmp_path / "sweep.toml"
        file.write_text(DIGITS + text)
        return read_sweep(file, tmp_path / "nowhere")

    return read_text


@pytest.fixture
def two_by_two(read: Callable[[str], SweepRequest]) -> SweepRequest:
    return read("seeds = [0, 1]\n[grid]\nepsilon = [1, 3]\n")
