"""What 139 schools reach together, alone, and each with a model of its own: tables.

    python examples/schools/measure.py --out FILE [--ways "fedavg;alone;mr-mtl"] [--seeds 5]

Each run is a line of FILE, with the mean squared error of every school on its own test part. A run that
stands there is not repeated: a measurement goes on where it was stopped, and FILE alone gives the tables. A
seed decides who is in a test part; the noise is new in each run.
"""

import argparse
import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import ray
import torch
from torch import nn

import fl_dp

HERE = Path(__file__).parent
TASK = str(HERE / "task.py")

# What choose.py prints for schools that are made up.
_TOGETHER: Mapping[str, Any] = {"learning_rate": 0.1, "max_grad_norm": 1.0}
_OWN: Mapping[str, Any] = {"local_algorithm": "mr-mtl", "learning_rate": 0.1, "max_grad_norm": 0.5}
PULL = 1.0
BASELINE = "mr-mtl"
CURVE = (0.1, 0.3, 3.0, 10.0)
_OFF: Mapping[str, Any] = {"privacy": "off"}
_EQUAL: Mapping[str, Any] = {"weights": "uniform"}
_NOISE: Mapping[str, Any] = {"weights": "noise"}

WAYS: Mapping[str, Mapping[str, Any]] = {
    "fedavg": _TOGETHER,
    "alone": {**_OWN, "pull": 0.0},
    "mr-mtl": {**_OWN, "pull": PULL},
    **{f"mr-mtl, pull {pull}": {**_OWN, "pull": pull} for pull in CURVE},
    "own constants": {**_TOGETHER, "personal": "bias"},
    "fedavg, equal shares": {**_TOGETHER, **_EQUAL},
    "fedavg, weights by noise": {**_TOGETHER, **_NOISE},
    "mr-mtl, equal shares": {**_OWN, **_EQUAL, "pull": PULL},
    "mr-mtl, weights by noise": {**_OWN, **_NOISE, "pull": PULL},
    "fedavg, no privacy": {**_TOGETHER, **_OFF},
    "alone, no privacy": {**_OWN, **_OFF, "pull": 0.0},
    "mr-mtl, no privacy": {**_OWN, **_OFF, "pull": PULL},
}
SIZES = ((0, 60), (60, 120), (120, 1000))  # training records


@dataclass(frozen=True)
class Outcome:
    """Of one run, school by school: mean squared errors, test records, training records."""

    errors: list[float]
    tests: list[int]
    trained_on: list[int]

    def error(self, sizes: tuple[int, int] = (0, 10**9), *, equal: bool = False) -> float:
        """The mean over schools of that many training records, by test records as in Liu et al., or equal."""
        chosen = [sizes[0] <= size < sizes[1] for size in self.trained_on]
        weights = np.where(chosen, 1 if equal else self.tests, 0)
        return float(np.average(self.errors, weights=weights))


def measured(way: str, seed: int, data: Path, **more: Any) -> Outcome:
    """One simulated federation."""
    folder = data / f"seed-{seed}"
    with TemporaryDirectory() as out:
        fl_dp.simulate(
            HERE / "run.toml",
            task=TASK,
            data=f"npz:{folder}/{{client}}.npz",
            seed=seed,
            out=Path(out) / "run",
            quiet=True,
            **{**WAYS[way], **more},
        )
        return scored(fl_dp.load_run(Path(out) / "run", task=TASK), folder)


def scored(run: fl_dp.Result, folder: Path) -> Outcome:
    """Each school's model on its own test part: its own where it has one, else the one of all."""
    outcome = Outcome([], [], [])
    for number in range(run.settings.clients):
        with np.load(folder / f"{number}.npz", allow_pickle=False) as arrays:
            inputs, targets, records = arrays["x_test"], arrays["y_test"], len(arrays["y_train"])
        outcome.errors.append(_error(_model(run, number), inputs, targets))
        outcome.tests.append(len(targets))
        outcome.trained_on.append(records)
    return outcome


def _model(run: fl_dp.Result, school: int) -> nn.Module:
    """Raises ConfigError, and does not fall back, where a way should have left schools' own models."""
    own = run.settings.personal or run.settings.local_algorithm == "mr-mtl"
    return run.model_of(school) if own else run.model


def _error(model: nn.Module, inputs: np.ndarray, targets: np.ndarray) -> float:
    with torch.no_grad():
        outputs = model(torch.from_numpy(inputs)).flatten().double()
    return float((outputs - torch.from_numpy(targets).double()).square().mean())


Outcomes = dict[str, dict[int, Outcome]]  # of a way, by seed


def read(file: Path) -> Outcomes:
    found: Outcomes = {}
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else []:
        one = json.loads(line)
        outcome = Outcome(one["errors"], one["tests"], one["trained_on"])
        found.setdefault(one["way"], {})[one["seed"]] = outcome
    return found


def table(found: Outcomes) -> str:
    """A line a way, in the order of WAYS: all schools, what that is above the baseline with the same test
    parts, all schools counting alike, and schools by their size.
    """
    sizes = [f"{low} to {high - 1} records" for low, high in SIZES]
    heads = ["all", f"above {BASELINE}, seed by seed", "each school alike", *sizes]
    lines = [f"| | {' | '.join(heads)} |", "|---|" + "---|" * len(heads)]
    for way in sorted(found, key=list(WAYS).index):
        runs = list(found[way].values())
        columns = [[one.error(equal=True) for one in runs]]
        columns += [[one.error(size) for one in runs] for size in SIZES]
        above = mean(differences(found[way], found.get(BASELINE, {})), "+.5f")
        cells = [mean([one.error() for one in runs]), above, *map(mean, columns)]
        lines.append(f"| {way} | {' | '.join(cells)} |")
    return "\n".join(lines)


def differences(ours: Mapping[int, Outcome], base: Mapping[int, Outcome]) -> list[float]:
    """Of what both have measured, with the same test parts: these differ more than ways do."""
    return [ours[seed].error() - base[seed].error() for seed in sorted(ours.keys() & base.keys())]


def mean(values: Sequence[float], form: str = ".5f") -> str:
    """With its standard error, and how many there are."""
    if len(values) < 2:
        return f"{values[0]:{form}} (1)" if values else "not measured"
    error = statistics.stdev(values) / len(values) ** 0.5
    return f"{statistics.mean(values):{form}} ± {error:.5f} ({len(values)})"


def main() -> None:
    parser = argparse.ArgumentParser(description="Mean squared errors over seeds, of some ways to learn.")
    parser.add_argument("--out", type=Path, required=True, help="file of results; what it has is kept")
    parser.add_argument("--ways", default=";".join(WAYS), help="separated by semicolons")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--data", type=Path, default=Path("data/schools"), help="where prepare.py wrote")
    given = parser.parse_args()
    ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR")  # one for all runs
    for seed in range(given.seeds):
        for way in given.ways.split(";"):
            if seed in read(given.out).get(way, {}):
                continue
            outcome = measured(way, seed, given.data)
            line = {"way": way, "seed": seed, **vars(outcome)}
            with given.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
    print(table(read(given.out)))


if __name__ == "__main__":
    main()
