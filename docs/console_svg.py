"""Draw what a run printed as docs/run.svg: `./run.sh | .venv/bin/python docs/console_svg.py`."""

import re
import sys
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console

console = Console(record=True, width=140, file=sys.stderr)
console.print("$ ./run.sh", highlight=False)
for line in sys.stdin:
    console.print(line.rstrip(), markup=False, highlight=False)
# no web fonts: a picture should not load anything
svg_format = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
console.save_svg(str(Path(__file__).parent / "run.svg"), title="fl_dp", code_format=svg_format)
