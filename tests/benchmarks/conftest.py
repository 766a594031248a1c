"""Opacus installs a package `benchmarks` of its own: ours must come first. And `made_up_runs` and
`made_up_parts` are found.
"""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE), str(HERE / "simulation")]
