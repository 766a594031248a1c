"""What accuracy a budget buys: single clients and federations, against the best that is published.

    python -m benchmarks.accuracy --out FILE --data-root DIR [--rows A,B] [--seeds 5] [--data NAME=VALUE]
    python -m benchmarks.accuracy --out FILE --data-root DIR --rows A --tune

Each run is a line of FILE, and a run that stands there is not repeated: what was stopped goes on. The test
images are read once, by the model of the last round, but for rows with a curve. Epsilon is that of the
clients' ledgers. A seed decides the first weights and who has which images; the noise is new in each run.
--data cifar10=npz:FILE reads a data set from another source. --tune runs what is tried for a row, at seed
100, trained without 5,000 images of the training set, and measured on those.
"""

import argparse
import json
import re
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

import fl_dp
from benchmarks.accuracy_rows import ROWS, Settings
from benchmarks.markdown import table
from benchmarks.options import say
from fl_dp.config.data import DataSettings
from fl_dp.data.source import data_of
from fl_dp.data.tensor_data import TensorData

Line = Mapping[str, Any]


@dataclass(frozen=True)
class Lines:
    """A JSON object a line: what was run, and what came of it."""

    file: Path

    def read(self) -> list[Line]:
        lines = self.file.read_text(encoding="utf-8").splitlines() if self.file.exists() else []
        return [json.loads(line) for line in lines]

    def measure(self, key: Line, run: Callable[[], Line]) -> None:
        """Add what `run` gives to the line `key`, unless there is one."""
        if any(all(line.get(part) == value for part, value in key.items()) for line in self.read()):
            return
        text = json.dumps({**key, **run()})
        with self.file.open("a", encoding="utf-8") as file:
            file.write(text + "\n")
        say(text)


def mean(values: Sequence[float | None]) -> str:
    """With its standard error over runs; None counts nowhere."""
    there = [value for value in values if value is not None]
    if len(there) < 2:
        return f"{there[0]:.3f}" if there else ""
    return f"{statistics.mean(there):.3f} ± {statistics.stdev(there) / len(there) ** 0.5:.3f}"


HELD_OUT, TUNING_SEED = 5000, 100
_PER_CLASS = "accuracy-per-class["


def main() -> None:
    options = parser().parse_args()
    lines = Lines(options.out)
    with TemporaryDirectory() as folder:
        for name in options.rows:
            data = options.data.get(ROWS[name].settings["data"], ROWS[name].settings["data"])
            if options.tune:
                data = held_out(data, Path(options.data_root), Path(folder))
            for changes, seed in wanted(name, options):
                key = {"row": name, "changes": dict(changes), "seed": seed, "tune": options.tune}
                settings = {**ROWS[name].settings, **changes, "data": data, "seed": seed}
                lines.measure(key, partial(measured, settings, options.data_root))
    say(summary([line for line in lines.read() if line["tune"] == options.tune]))


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m benchmarks.accuracy")
    made.add_argument("--out", type=Path, required=True, help="file of results; what it has is kept")
    made.add_argument("--data-root", default="data", help="folder of torchvision's data sets")
    made.add_argument("--data", type=_elsewhere, default={}, metavar="NAME=VALUE", action=_Update)
    made.add_argument("--rows", type=_rows, default=list(ROWS), help="parts of rows' names, commas between")
    made.add_argument("--seeds", type=int, default=5)
    made.add_argument("--tune", action="store_true")
    return made


class _Update(argparse.Action):
    """Adds to the mapping that earlier options gave."""

    def __call__(self, _parser: Any, namespace: argparse.Namespace, values: Any, _option: Any = None) -> None:
        setattr(namespace, self.dest, {**getattr(namespace, self.dest), **values})


def _elsewhere(text: str) -> dict[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r}: expected NAME=VALUE, such as cifar10=npz:FILE.")
    return {name: value}


def _rows(text: str) -> list[str]:
    found = [name for name in ROWS if any(part and part in name for part in text.split(","))]
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is in no row's name: {'; '.join(ROWS)}.")
    return found


def wanted(name: str, options: argparse.Namespace) -> list[tuple[Settings, int]]:
    """What is changed of the row's settings, and the seed, of each run."""
    if options.tune:
        return [(changes, TUNING_SEED) for changes in ROWS[name].tried]
    return [({}, seed) for seed in range(options.seeds)]


def measured(settings: Settings, data_root: str) -> dict[str, Any]:
    """Accuracy on the test images, of all and of the worst class; the largest epsilon; seconds.

    curve: the accuracy after each round, of rows that measure it. No choice is made by it.
    """
    with TemporaryDirectory() as folder:
        started = time.perf_counter()
        result = fl_dp.simulate(out=Path(folder) / "run", quiet=True, data_root=data_root, **settings)
        seconds = time.perf_counter() - started
        curve = list(result.rounds["accuracy"])
    metrics, federation = result.summary["metrics"], result.summary["federation"]
    return {
        "accuracy": metrics["accuracy"],
        **worst_class(metrics),
        "epsilon": federation["largest"],
        "seconds": round(seconds),
        **({"curve": curve} if curve else {}),
    }


def worst_class(metrics: Mapping[str, float | None]) -> dict[str, Any]:
    """The least accuracy of a class, and its name; None and no name where no class is told."""
    told = [
        (value, name) for name, value in metrics.items() if name.startswith(_PER_CLASS) and value is not None
    ]
    value, name = min(told, default=(None, _PER_CLASS + "]"))
    return {"worst": value, "worst_class": name[len(_PER_CLASS) : -1]}


def held_out(data: str, root: Path, folder: Path) -> str:
    """The name of a data set of the training images alone: all but 5,000 to train on, those to measure on."""
    whole = data_of(DataSettings(data=data, data_root=str(root)), "train")
    order = torch.randperm(len(whole), generator=torch.Generator().manual_seed(TUNING_SEED))
    file = folder / f"{re.sub('[^a-z0-9]', '-', data.lower())[-40:]}.npz"
    parts = {"train": order[HELD_OUT:], "test": order[:HELD_OUT]}
    arrays = {}
    for split, indices in parts.items():
        arrays |= {f"x_{split}": _pixels(whole, indices), f"y_{split}": whole.y[indices].numpy()}
    np.savez(file, classes=np.array(whole.classes), **arrays)
    return f"npz:{file}"


def _pixels(whole: TensorData, indices: torch.Tensor) -> Any:
    """uint8 (n, H, W) or (n, H, W, C), as an npz source takes them."""
    return whole.x[indices].permute(0, 2, 3, 1).squeeze(3).contiguous().numpy()


def summary(lines: Sequence[Line]) -> str:
    """A row for each row of the table, or for each change of its settings."""
    groups: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        groups.setdefault((line["row"], _in_words(line["changes"])), []).append(line)
    rows = []
    for (name, changes), found in groups.items():
        known = ROWS[name].reference if name in ROWS else ""
        rows.append(
            [
                f"{name}{': ' if changes else ''}{changes}",
                known,
                mean([100 * line["accuracy"] for line in found]),
                *_worst(found),
                f"{max(line['epsilon'] or np.inf for line in found):.2f}",
                str(len(found)),
                f"{np.median([line['seconds'] for line in found]):.0f}",
            ]
        )
    headings = ("", "published", "accuracy %", "worst class %", "which", "epsilon", "seeds", "seconds")
    return table(headings, rows, left=2)


def _worst(lines: Sequence[Line]) -> tuple[str, str]:
    """The mean over seeds of the least accuracy of a class, and the class of the least; empty without any."""
    told = [line for line in lines if line.get("worst") is not None]
    if not told:
        return "", ""
    return mean([100 * line["worst"] for line in told]), min(told, key=lambda one: one["worst"])[
        "worst_class"
    ]


def _in_words(changes: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in changes.items())


if __name__ == "__main__":
    main()
