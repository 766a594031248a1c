"""Opacus installs a package `benchmarks` of its own: ours must come first. And `made_up_parts` is found."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE)]
