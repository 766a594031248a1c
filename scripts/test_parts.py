"""`python -m scripts.test_parts`: what `make test` leaves out, by part."""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
SLOW, SEARCHES = ("-m", "slow"), ("-m", "hypothesis", "--hypothesis-profile=long")
# In each about as much time; a folder that is named nowhere belongs to the last.
FOLDERS = {
    "launch": ("launch", "attacks"),
    "pages": ("docs", "cli"),
    "examples": ("examples", "benchmarks", "scripts", "reporting", "models", "data", "simulation", "api"),
}
REST = "rest"
PARTS = (*FOLDERS, REST)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts that are asked for; the exit code is 1 where one failed, after all were tried."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no part is called {', '.join(sorted(unknown))}; expected some of {', '.join(PARTS)}")
    parts = [PARTS[options.turn % len(PARTS)]] if options.turn is not None else options.parts or PARTS
    failed = [part for part in parts if not passes(part, options.processes)]
    print(f"failed: {', '.join(failed)}" if failed else f"passed: {', '.join(parts)}")
    return int(bool(failed))


def passes(part: str, processes: int) -> bool:
    print(f"{part}:", flush=True)
    pytest = [sys.executable, "-m", "pytest", "-n", str(processes), "--dist", "worksteal"]
    runs = [[*pytest, *SLOW, *paths(part)]] + ([[*pytest, *SEARCHES]] if part == REST else [])
    codes = [subprocess.run(command, cwd=ROOT, check=False).returncode for command in runs]
    return not any(codes)


def paths(part: str) -> list[str]:
    """Folders and files of tests/ that make up a part."""
    tests = ROOT / "tests"
    if part in FOLDERS:
        return [str(tests / name) for name in FOLDERS[part]]
    named = {name for names in FOLDERS.values() for name in names}
    return [
        str(path)
        for path in sorted(tests.iterdir())
        if path.name not in named and (path.name.startswith("test_") or any(path.rglob("test_*.py")))
    ]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m scripts.test_parts", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)} [default: all]")
    parser.add_argument("--turn", type=int, metavar="N", help="one part, chosen by a number")
    parser.add_argument("--processes", type=int, default=2, help="tests at a time [default: 2]")
    return parser


if __name__ == "__main__":
    sys.exit(main())
