"""Opacus installs a package `benchmarks` of its own: ours must come first. And `made_up_runs` is found."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parent / "simulation")]
