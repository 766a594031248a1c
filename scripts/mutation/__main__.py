"""`python -m scripts.mutation`: N random small changes, and whether the fast tests notice them.

CONTRIBUTING.md says how to read what it prints.
"""

import argparse
import random
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, islice, zip_longest
from pathlib import Path
from queue import SimpleQueue

from scripts.mutation.changes import Change, find_changes
from scripts.mutation.results import append_trial, read_trials
from scripts.mutation.tests_of import DEFAULT_PARTS, files_of
from scripts.mutation.trial import Trial, Workshop

ROOT = Path(__file__).parents[2]
_SHOWN = 140  # characters of a changed line that are printed; the results file has all


def main(arguments: Sequence[str] | None = None) -> None:
    """Try the sample, or the survivors of a file again; print the survivors and the count."""
    options = _parser().parse_args(arguments)
    results = options.survivors or options.out or ROOT / "runs" / f"mutants-{options.seed}.jsonl"
    if options.survivors:
        known = read_trials(results)
        sample = [change for change, trial in known.values() if trial.verdict == "survived"]
        waiting = sample
    else:
        sample = choose(options.parts or DEFAULT_PARTS, options.number, options.seed)
        known = read_trials(results)
        waiting = [change for change in sample if change.key not in known]
    print(f"{len(waiting)} of {len(sample)} changes to try; results in {results}", flush=True)
    _try_all(waiting, options.jobs, results)
    known = read_trials(results)
    print(summary([known[change.key][1] for change in sample if change.key in known]))


def choose(parts: Sequence[str], number: int, seed: int) -> list[Change]:
    """`number` changes, as many of each part; the same ones for a seed while the part's source is the same.

    Each change of a part is as likely as any other. A larger `number` adds to the sample of a smaller one.
    """
    shuffled = []
    for part in parts:
        every = [
            change
            for file in files_of(part, ROOT)
            for change in find_changes(file, (ROOT / file).read_text())
        ]
        random.Random(f"{seed} {part}").shuffle(every)
        shuffled.append(every)
    in_turn = chain.from_iterable(zip_longest(*shuffled))
    return list(islice((change for change in in_turn if change is not None), number))


def summary(trials: Sequence[Trial]) -> str:
    """The last line: how many were noticed; a change that is gone from the source is not counted."""
    gone = sum(trial.verdict == "gone" for trial in trials)
    noticed = sum(trial.verdict in ("noticed", "timed out") for trial in trials)
    text = f"noticed {noticed} of {len(trials) - gone}"
    return text + (f"; {gone} are gone from the source" if gone else "")


def _try_all(changes: Sequence[Change], jobs: int, results: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        workshops: SimpleQueue[Workshop] = SimpleQueue()
        for number in range(jobs):
            workshops.put(Workshop(ROOT, Path(folder) / str(number)))

        def try_one(change: Change) -> tuple[Change, Trial]:
            workshop = workshops.get()
            try:
                workshop.check_unchanged(change.file)
                trial = workshop.try_change(change)
                append_trial(results, change, trial)
                return change, trial
            finally:
                workshops.put(workshop)

        with ThreadPoolExecutor(jobs) as pool:
            for done, (change, trial) in enumerate(pool.map(try_one, changes), 1):
                _report(change, trial, f"{done}/{len(changes)}")


def _report(change: Change, trial: Trial, count: str) -> None:
    print(f"{count} {change.file}:{change.line}: {trial.verdict}, {trial.seconds:.0f} s", flush=True)
    if trial.verdict == "survived":
        print(f"    SURVIVED ({change.kind}, in {change.place or 'the module'})", flush=True)
        print(f"    - {_near(change.before, change.after)}", flush=True)
        print(f"    + {_near(change.after, change.before)}", flush=True)


def _near(text: str, other: str) -> str:
    """The part of a long `text` around its first difference to `other`."""
    same = next((i for i, (one, two) in enumerate(zip(text, other, strict=False)) if one != two), 0)
    start = max(same - _SHOWN // 2, 0)
    return ("... " if start else "") + text[start : start + _SHOWN]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m scripts.mutation", description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"parts of fl_dp [default: {' '.join(DEFAULT_PARTS)}]")
    parser.add_argument("--number", type=int, default=100, help="changes to try [default: 100]")
    parser.add_argument("--seed", type=int, default=0, help="chooses the changes [default: 0]")
    parser.add_argument("--jobs", type=int, default=1, help="changes tried at a time [default: 1]")
    parser.add_argument("--out", type=Path, help="results [default: runs/mutants-SEED.jsonl]")
    parser.add_argument("--survivors", type=Path, metavar="FILE", help="try the survivors in FILE again")
    return parser


if __name__ == "__main__":
    main()
