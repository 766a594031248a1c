"""MKL is asked for the mode in which a row's result does not depend on its place; a user's choice stays."""

import os
import subprocess
import sys

import pytest

from fl_dp import steady_math


def test_importing_the_package_sets_the_mode_before_anything_computes():
    code = "import os; os.environ.pop('MKL_CBWR', None); import torch, fl_dp; print(os.environ['MKL_CBWR'])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.strip().endswith(",STRICT")


def test_a_users_choice_stays(monkeypatch):
    monkeypatch.setenv("MKL_CBWR", "COMPATIBLE")
    steady_math.set_mode()
    assert os.environ["MKL_CBWR"] == "COMPATIBLE"


@pytest.mark.parametrize(
    ("cpu", "mode"),
    [
        ("vendor_id: GenuineIntel\nflags: avx2 avx512f", "AVX512,STRICT"),
        ("vendor_id: GenuineIntel\nflags: avx2", "AVX2,STRICT"),
        ("vendor_id: AuthenticAMD\nflags: avx2 avx512f", "AVX2,STRICT"),
        (None, "AUTO,STRICT"),
    ],
)
def test_the_mode_is_the_fastest_strict_one(monkeypatch, tmp_path, cpu, mode):
    file = tmp_path / "cpuinfo"
    if cpu is not None:
        file.write_text(cpu)
    monkeypatch.setattr(steady_math, "_CPU", file)
    monkeypatch.delenv("MKL_CBWR", raising=False)
    steady_math.set_mode()
    assert os.environ["MKL_CBWR"] == mode
