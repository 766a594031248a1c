"""What each way to federate reaches on Fashion-MNIST, at one epsilon: ten sites that differ, side by side.

    python -m benchmarks.strategies --out FILE --data-root DIR [--strategies fedavg,mr-mtl] [--seeds 3]
    python -m benchmarks.strategies --out FILE --data-root DIR --tune [--model linear]

dirichlet 0.3 over 10 clients, all of them in each round. Three accuracies: of the common model on the public
test images; the mean over sites of the common model's and of the site's own, both on test images in the
site's mix of classes (each class's accuracy, times its share among the site's training records; a benchmark
may look there, no site would tell).

Each run is a line of FILE, and a run that stands there is not repeated. A seed decides who has which images,
and the first weights; the noise is new in each run. --tune runs the values in TRIED at seed 100 alone.
"""

import argparse
import statistics
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import ray
import torch
from torch import Tensor, nn

import fl_dp
from benchmarks.lines import Lines, mean
from benchmarks.markdown import table
from benchmarks.options import say, some_of
from fl_dp.api.result import Result
from fl_dp.data.source import data_of
from fl_dp.data.tensor_data import TensorData
from fl_dp.tasks.records import load_parts
from fl_dp.training.local_algorithm import has_own_models

TUNING_SEED = 100
CLIENTS, CLASSES = 10, 10
BASE = {
    "data": "fashion_mnist", "partition": "dirichlet", "partition_alpha": 0.3,
    "clients": CLIENTS, "min_clients": CLIENTS, "fit_clients": CLIENTS, "rounds": 10, "local_epochs": 0.5,
    "expected_batch_size": 256, "physical_batch_size": 128, "max_grad_norm": 0.1, "epsilon": 3.0,
    "weights": "declared", "evaluate_every": 0,
}  # fmt: skip

RATES = {"linear": 32.0, "tanh-cnn": 32.0}
HEADS = {"linear": "1.bias", "tanh-cnn": "9.*"}

# What each strategy changes; values of TRIED that were best at the tuning seed.
STRATEGIES: Mapping[str, Mapping[str, Any]] = {
    "fedavg": {},
    "fedavg, uniform weights": {"weights": "uniform"},
    "fedavg, weights by noise": {"weights": "noise"},
    "fedavgm": {"server_optimizer": "fedavgm", "learning_rate": 8.0},
    "fedadam": {"server_optimizer": "fedadam", "server_learning_rate": 0.03},
    "fedyogi": {"server_optimizer": "fedyogi", "server_learning_rate": 0.03},
    "fedprox": {"local_algorithm": "fedprox", "pull": 0.001},
    "mr-mtl": {"local_algorithm": "mr-mtl", "pull": 0.001},
    "each site alone": {"local_algorithm": "mr-mtl", "pull": 0.0},
    "personal head": {"evaluate": "off"},
}
TRIED: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "fedavg": [{"learning_rate": rate} for rate in (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)],
    "fedavgm": [{"server_learning_rate": rate, "learning_rate": 8.0} for rate in (0.3, 1.0)],
    "fedadam": [{"server_learning_rate": rate} for rate in (0.01, 0.03, 0.1)],
    "fedyogi": [{"server_learning_rate": rate} for rate in (0.01, 0.03, 0.1)],
    "fedprox": [{"pull": pull} for pull in (0.001, 0.003, 0.01)],
    "mr-mtl": [
        *({"pull": pull, "learning_rate": rate} for pull in (0.003, 0.01, 0.03) for rate in (8.0, 32.0)),
        *({"pull": pull, "learning_rate": 32.0} for pull in (0.0003, 0.001)),
    ],
    "each site alone": [{"learning_rate": rate} for rate in (2.0, 8.0, 32.0)],
    "personal head": [{"learning_rate": rate} for rate in (8.0, 32.0)],
}


def main() -> None:
    options = parser().parse_args()
    lines = Lines(options.out)
    ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR")  # one for all runs
    for name, changes, seed in wanted(options):
        key = {"model": options.model, "strategy": name, "changes": dict(changes), "seed": seed}
        settings = {"learning_rate": RATES[options.model], **STRATEGIES[name], **changes}
        if name == "personal head":
            settings["personal"] = HEADS[options.model]
        settings["model"] = options.model
        lines.measure(key, partial(measured, settings, seed, options.data_root))
    say(tables([line for line in lines.read() if line["model"] == options.model]))


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m benchmarks.strategies")
    made.add_argument("--out", type=Path, required=True, help="file of results; what it has is kept")
    made.add_argument("--data-root", required=True, help="folder with FashionMNIST")
    made.add_argument("--model", choices=RATES, default="linear")
    made.add_argument("--strategies", type=some_of(STRATEGIES), default=list(STRATEGIES))
    made.add_argument("--seeds", type=int, default=3)
    made.add_argument("--tune", action="store_true")
    return made


def wanted(options: argparse.Namespace) -> Iterator[tuple[str, Mapping[str, Any], int]]:
    """Strategy, what is changed of it, and seed of each run."""
    if options.tune:
        for name in options.strategies:
            yield from ((name, changes, TUNING_SEED) for changes in TRIED.get(name, ()))
        return
    for seed in range(options.seeds):
        yield from ((name, {}, seed) for name in options.strategies)


def measured(settings: Mapping[str, Any], seed: int, data_root: str) -> dict[str, float | None]:
    """Of one simulated federation the accuracies that the table shows."""
    with TemporaryDirectory() as folder:
        given = {**BASE, **settings, "seed": seed, "data_root": data_root}
        result = fl_dp.simulate(out=Path(folder) / "run", quiet=True, **given)
        test = data_of(result.settings, "test")
        mixes = _mixes(result)
        personal = bool(result.settings.personal)  # the common model's head was never trained
        common = None if personal else mixes @ _by_class(result.model, test)
        return {
            "common": None if personal else result.summary["metrics"]["accuracy"],
            "common at sites": None if common is None else statistics.mean(common.tolist()),
            "own at sites": _own(result, test, mixes),
            "epsilon": result.epsilon,
        }


def _own(result: Result, test: TensorData, mixes: Tensor) -> float | None:
    """The mean over sites of their own models' accuracies, in their own mixes."""
    if not has_own_models(result.settings.local_algorithm, result.settings.personal):
        return None
    accuracies = (mixes[k] @ _by_class(result.model_of(k), test) for k in range(CLIENTS))
    return statistics.mean(map(float, accuracies))


@torch.no_grad()
def _by_class(model: nn.Module, test: TensorData) -> Tensor:
    """(classes,) the model's accuracy on each class."""
    right = []
    for indices in torch.split(torch.arange(len(test)), 1000):
        inputs, labels = test.batch(indices)
        right.append(model.eval()(inputs).argmax(1) == labels)
    hits = torch.cat(right).double()
    return torch.stack([hits[test.y == label].mean() for label in range(CLASSES)])


def _mixes(result: Result) -> Tensor:
    """(clients, classes) the shares of classes among each site's training records."""
    train, parts = load_parts(result.settings)
    counts = torch.stack([torch.bincount(train.y[part], minlength=CLASSES) for part in parts]).double()
    return counts / counts.sum(1, keepdim=True)


def tables(lines: Sequence[Mapping[str, Any]]) -> str:
    """Of the strategies, and of what was tried."""
    measures = ("common", "common at sites", "own at sites")
    rows, tried = [], []
    for name in STRATEGIES:
        of_name = [line for line in lines if line["strategy"] == name]
        real = [line for line in of_name if line["seed"] != TUNING_SEED]
        if real:
            rows.append([name, *(mean([line[one] for line in real]) for one in measures)])
        for line in of_name:
            if line["seed"] == TUNING_SEED:
                words = ", ".join(f"{key} {value:g}" for key, value in line["changes"].items())
                tried.append([name, words, *(mean([line[one]]) for one in measures)])
    found = table(["strategy", *measures], rows, left=1)
    return found + "\n\n" + table(["strategy", "tried", *measures], tried, left=2) if tried else found


if __name__ == "__main__":
    main()
