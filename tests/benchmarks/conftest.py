"""Opacus installs a package `benchmarks` of its own: ours must come first."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
