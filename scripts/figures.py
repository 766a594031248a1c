"""`make figures`: docs/run.svg, the console of a run, drawn from a run that is made for it."""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "run.svg"
RUN = "runs/20250102-030405"  # how its folder is called in the picture
_FONT = re.compile(r"@font-face \{\{.*?\}\}", re.DOTALL)


def run() -> str:
    """What `./run.sh` prints, with RUN as the name of its folder."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "fl_dp", "run", "--out", RUN],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout


def svg(text: str) -> str:
    """A terminal with `$ ./run.sh` and the text; it loads no font from the network."""
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        console = Console(record=True, width=80, file=nowhere)
        console.print("$ ./run.sh", highlight=False)
        for line in text.splitlines():
            console.print(line.rstrip(), markup=False, highlight=False)
        return console.export_svg(title="fl_dp", code_format=_FONT.sub("", CONSOLE_SVG_FORMAT))


def shown(picture: str) -> str:
    """The text of a picture that `svg` has made, line by line, without numbers, which differ by run."""
    words = re.findall(r'<text class="[^"]*" x="([^"]*)" y="([^"]*)"[^>]*>([^<]*)</text>', picture)
    lines: dict[float, list[tuple[float, str]]] = {}
    for x, y, word in words:
        lines.setdefault(float(y), []).append((float(x), word.replace("&#160;", " ")))
    joined = [" ".join(word.strip() for _, word in sorted(line)) for _, line in sorted(lines.items())]
    return "\n".join(re.sub(r"[ ]+", " ", re.sub(r"\d+(\.\d+)?", "0", line)).strip() for line in joined)


def main() -> None:
    PICTURE.write_text(svg(run()), encoding="utf-8")
    print(PICTURE)


if __name__ == "__main__":
    main()
