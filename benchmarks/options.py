"""What the benchmarks' command lines have in common."""

import argparse
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.circumstances import circumstances
from benchmarks.measure import CLOCKS
from benchmarks.steps import AUTOCAST


def common_parser(module: str, description: str | None) -> argparse.ArgumentParser:
    """--device, --dtype, --clock, --limit and --json; described by the first line of a module's docstring."""
    lines = (description or "").splitlines()
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=lines[0] if lines else None)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", choices=AUTOCAST, default="float32", help="bf16: under torch.autocast")
    parser.add_argument(
        "--limit", type=float, default=300.0, help="seconds that a process may take to answer"
    )
    parser.add_argument(
        "--clock", choices=CLOCKS, default="wall", help="cpu: a busy machine's, of one thread"
    )
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser


def some_of(known: Collection[str]) -> Callable[[str], list[str]]:
    """Parses `A,B`."""

    def parse(text: str) -> list[str]:
        names = text.split(",")
        unknown = [name for name in names if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: expected some of {', '.join(known)}.")
        return names

    return parse


@dataclass(frozen=True, slots=True)
class Report:
    """What a benchmark found: Markdown to read, and all of it as JSON."""

    markdown: str
    data: Mapping[str, object]


def say(line: str) -> None:
    print(line, flush=True)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.rstrip("\n") + "\n", encoding="utf-8")


def publish(report: Report, options: argparse.Namespace) -> None:
    """Print it, and write the JSON if that was asked for."""
    say("\n" + report.markdown)
    if options.json:
        found = {**circumstances(options.device), **report.data}
        write(options.json, json.dumps(found, indent=1))
