"""Draw what a command printed as docs/run.svg: `./run.sh 2>&1 | .venv/bin/python docs/console_svg.py`."""

import sys
from pathlib import Path

from rich.console import Console

console = Console(record=True, width=130, file=sys.stderr)
console.print("$ ./run.sh", highlight=False)
for line in sys.stdin:
    console.print(line.rstrip(), markup=False, highlight=False)
console.save_svg(str(Path(__file__).parent / "run.svg"), title="fl_dp")
