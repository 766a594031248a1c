"""Noise planned for the rounds that a client takes part in, against noise planned for all rounds.

    python -m benchmarks.participations --out FILE --data-root DIR [--seeds 3]

Fashion-MNIST over 1,000 clients, 100 of them a round, 20 rounds, a budget of epsilon 3 each. Planned for all
rounds, a client that is drawn for two of them has spent little, and its updates were noisier than they had to
be. Both ways are run at the same learning rates. Each run is a line of FILE, and one that stands there is not
repeated.
"""

import argparse
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import ray

import fl_dp
from benchmarks.lines import Lines, mean
from benchmarks.markdown import table
from benchmarks.options import say

BASE = {
    "data": "fashion_mnist", "model": "tanh-cnn", "clients": 1000, "min_clients": 1000, "fit_clients": 100,
    "rounds": 20, "local_epochs": 2.0, "expected_batch_size": 20, "physical_batch_size": 20,
    "max_grad_norm": 0.1, "epsilon": 3.0, "evaluate_every": 0,
}  # fmt: skip
RATES = (1.0, 2.0, 4.0)
PLANNED: Mapping[str, int | str] = {"all rounds": 0, "auto": "auto"}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.participations")
    parser.add_argument("--out", type=Path, required=True, help="file of results; what it has is kept")
    parser.add_argument("--data-root", required=True, help="folder with FashionMNIST")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    lines = Lines(options.out)
    ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR")  # one for all runs
    for seed in range(options.seeds):
        for planned in PLANNED:
            for rate in RATES:
                key = {"planned": planned, "rate": rate, "seed": seed}
                lines.measure(key, partial(measured, planned, rate, seed, options.data_root))
    say(summary(lines.read()))


def measured(planned: str, rate: float, seed: int, data_root: str) -> dict[str, Any]:
    """Accuracy after the last round, and how the clients' epsilons stand then."""
    with TemporaryDirectory() as folder:
        result = fl_dp.simulate(
            out=Path(folder) / "run", quiet=True, seed=seed, data_root=data_root, learning_rate=rate,
            participations=PLANNED[planned], **BASE,
        )  # fmt: skip
        spent = result.summary["federation"]
        numbers = {key: spent[key] for key in ("largest", "median", "least")}
        return {"accuracy": result.summary["metrics"]["accuracy"], **numbers}


def summary(lines: Sequence[Mapping[str, Any]]) -> str:
    rows = []
    for planned in PLANNED:
        for rate in RATES:
            found = [one for one in lines if (one["planned"], one["rate"]) == (planned, rate)]
            if found:
                means = [mean([one[key] for one in found]) for key in ("accuracy", "largest", "median")]
                rows.append([planned, f"{rate:g}", *means])
    headings = ("noise planned for", "rate", "accuracy", "largest epsilon", "median epsilon")
    return table(headings, rows, left=1)


if __name__ == "__main__":
    main()
