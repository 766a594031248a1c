"""The README's table of runs, made anew: `python -m benchmarks.readme --data-root DIR [--rows 1,2]`.

Each row's own command is run, one after the other, and its line is written again. Half an hour on a quiet
machine, most of it for Fashion-MNIST, of which DIR holds the files as torchvision lays them out.
"""

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.options import say
from fl_dp.config.flat import AUTO
from fl_dp.errors import ExitCode
from fl_dp.reporting.console import rounded_up

README = Path(__file__).parents[1] / "README.md"
_ROW = re.compile(r"^\| `(\./run\.sh[^`]*)` \|.*$", re.MULTILINE)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.readme", description=__doc__)
    parser.add_argument("--data-root", default="data")
    parser.add_argument("--rows", type=lambda text: {int(one) for one in text.split(",")}, help="from 1 on")
    options = parser.parse_args()
    commands = _ROW.findall(README.read_text())
    for number, command in enumerate(commands, 1):
        if options.rows is None or number in options.rows:
            line = measured(command, options.data_root)
            say(line)
            README.write_text(with_line(README.read_text(), command, line))


def measured(command: str, data_root: str) -> str:
    """The command's row, after it was run. RuntimeError if it fails."""
    with TemporaryDirectory() as folder:
        words = [*shlex.split(command)[1:], "--out", f"{folder}/run", "--set", f"data-root={data_root}"]
        env = {**os.environ, "FL_DP_PYTHON": sys.executable}
        began = time.monotonic()
        done = subprocess.run(
            ["./run.sh", *words], cwd=README.parent, env=env, capture_output=True, text=True
        )
        seconds = time.monotonic() - began
        if done.returncode not in (ExitCode.TRAINED, ExitCode.BUDGET_EXHAUSTED):
            raise RuntimeError(f"{command}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return row(command, Path(folder) / "run", done.returncode, seconds)


def row(command: str, run: Path, code: int, seconds: float) -> str:
    """The line of a run's folder. seconds: from start to end."""
    reports = [json.loads(line) for line in (run / "rounds.jsonl").read_text().splitlines()]
    asked = tomllib.loads((run / "config.toml").read_text())["noise-multiplier"]
    noise = f"{reports[0]['noise_multiplier']:g}{' (auto)' if asked == AUTO else ''}"
    epsilons = ", ".join(rounded_up(report["epsilon"]) for report in reports)
    ended = f"; then the budgets are spent (exit code {code})" if code == ExitCode.BUDGET_EXHAUSTED else ""
    accuracies = ", ".join(f"{report['accuracy']:.3f}" for report in reports)
    return f"| `{command}` | {noise} | {epsilons}{ended} | {accuracies} | {seconds:.0f} |"


def with_line(text: str, command: str, line: str) -> str:
    """The README with another line for that command."""
    return _ROW.sub(lambda found: line if found[1] == command else found[0], text)


if __name__ == "__main__":
    main()
