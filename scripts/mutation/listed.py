"""`python -m scripts.mutation.listed`: changes that each break a promise, and which fast test notices it.

They stand in listed/*.toml, and stay when tests are thinned out: what was noticed stays noticed.
"""

import argparse
import json
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue

from scripts.mutation.trial import Trial, Workshop

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).parent / "listed"


@dataclass(frozen=True, slots=True)
class ListedChange:
    """`old`, which stands once in `file`, becomes `new`; that breaks `promise`."""

    name: str
    promise: str
    file: str
    old: str
    new: str

    def applied(self, source: str) -> str | None:
        """The changed text; None where `old` does not stand once."""
        return source.replace(self.old, self.new) if source.count(self.old) == 1 else None


def listed_changes() -> list[ListedChange]:
    """All of them, those of each file of listed/ in its order."""
    files = sorted(FOLDER.glob("*.toml"))
    return [ListedChange(**one) for file in files for one in tomllib.loads(file.read_text())["change"]]


def main(arguments: Sequence[str] | None = None) -> None:
    """Try those that have no line in the results yet; print each, and those that nothing noticed."""
    options = _parser().parse_args(arguments)
    known = read_results(options.out)
    changes = [one for one in listed_changes() if options.only in one.file]
    waiting = [one for one in changes if one.name not in known]
    print(f"{len(waiting)} of {len(changes)} changes to try; results in {options.out}", flush=True)
    further = () if options.further is None else tuple(options.further.split())
    options.out.parent.mkdir(parents=True, exist_ok=True)
    for change, trial in _try_all(waiting, options.jobs, further):
        print(f"{change.name}: {trial.verdict} by {trial.by}, {trial.seconds:.0f} s", flush=True)
        with options.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"name": change.name, **asdict(trial)}) + "\n")
    known = read_results(options.out)
    left = [one for one in changes if known[one.name].verdict in ("survived", "gone")]
    print(f"noticed {len(changes) - len(left)} of {len(changes)}")
    for one in left:
        print(f"    {known[one.name].verdict}: {one.name} in {one.file}: {one.promise}")


def read_results(path: Path) -> dict[str, Trial]:
    """The last trial of each change by its name; none while there is no file."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    found = (json.loads(line) for line in lines)
    return {one.pop("name"): Trial(**one) for one in found}


def _try_all(
    changes: Sequence[ListedChange], jobs: int, further: tuple[str, ...]
) -> Iterator[tuple[ListedChange, Trial]]:
    with tempfile.TemporaryDirectory(prefix="listed-") as folder, ThreadPoolExecutor(jobs) as pool:
        workshops: SimpleQueue[Workshop] = SimpleQueue()
        for number in range(jobs):
            workshops.put(Workshop(ROOT, Path(folder) / str(number)))

        def try_one(change: ListedChange) -> tuple[ListedChange, Trial]:
            workshop = workshops.get()
            try:
                return change, workshop.try_source(change.file, change.applied, *further)
            finally:
                workshops.put(workshop)

        yield from pool.map(try_one, changes)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m scripts.mutation.listed", description=__doc__)
    parser.add_argument("--only", default="", help="a part of the source files' names [default: all]")
    parser.add_argument("--jobs", type=int, default=1, help="changes tried at a time [default: 1]")
    parser.add_argument(
        "--further", help="tests to ask after those of the file's part, such as tests/attacks"
    )
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "listed.jsonl", help="results")
    return parser


if __name__ == "__main__":
    main()
