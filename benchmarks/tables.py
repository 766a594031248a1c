"""How good the probabilities of `fl-dp plan`'s settings are: ten tables of scikit-learn, beside a grid.

    python -m benchmarks.tables --out FILE [--tables census,wine] [--epsilons 1,3] [--seeds 4]

For each table and epsilon, one client trains with the rule's settings; with each clipping bound and rate of a
grid, all else by the rule; and without privacy, as `privacy = "off"` in the planned file. Bounds of the grid
are multiples of a typical gradient's length, and bound * rate multiples of the rule's. Scores are of a fifth
of the records, held out. A seed decides split, first weights, draws and noise. All settings of a table train
at once (many_runs.py). A line of FILE has all of a seed, and what stands there is not repeated.
"""

import argparse
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn import datasets
from torch import Tensor

from benchmarks.lines import Line, Lines, mean
from benchmarks.many_runs import Runs, scores, train, weights_of
from benchmarks.markdown import table
from benchmarks.options import say, some_of
from fl_dp.config.run import RunConfig
from fl_dp.data.source import data_of
from fl_dp.data.tensor_data import TensorData
from fl_dp.launch.defaults import rule
from fl_dp.launch.defaults.proposal import ruled
from fl_dp.tasks.load import new_model, task_of

BOUNDS = (0.1, 0.2, 0.4, 0.7, 1.0, 1.5, 2.0)  # of a typical gradient's length
PRODUCTS = (0.25, 0.5, 1.0, 2.0, 4.0)  # of the rule's bound * rate
RULE, WITHOUT = "rule", "without privacy"
SCORES = ("log loss", "brier", "accuracy")


@dataclass(frozen=True)
class Made:
    """make: inputs and classes. linear is the model unless another is named."""

    make: Callable[[], tuple[NDArray, NDArray]]
    model: str = "linear"


def _census(records: int = 24000) -> tuple[NDArray, NDArray]:
    """Like a census: six numbers, one skewed, and eight categories, one-hot; a quarter is positive."""
    x, y = datasets.make_classification(
        records, 14, n_informative=8, n_redundant=2, weights=[0.76], flip_y=0.05, random_state=0
    )
    random = np.random.default_rng(0)
    numbers = x[:, :6]
    numbers[:, 5] = np.exp(np.minimum(2 * numbers[:, 5], 8))
    columns = [_ranged(numbers)]
    for column, categories in zip(range(6, 14), (8, 16, 7, 14, 6, 5, 2, 20), strict=True):
        limits = np.quantile(x[:, column], np.sort(random.random(categories - 1)))
        columns.append(np.eye(categories)[np.searchsorted(limits, x[:, column])])
    return np.hstack(columns), y


def _ranged(x: NDArray) -> NDArray:
    """Each column from -1 to 1, as a schema's `range` does, here from its least value to its largest."""
    least, most = x.min(0), x.max(0)
    return 2 * (x - least) / np.where(most > least, most - least, 1) - 1


def _shipped(load: Callable[[], object], above: float | None = None) -> tuple[NDArray, NDArray]:
    """above: the target from which on a number to predict counts as the second class."""
    found = load()
    return _ranged(found.data), found.target if above is None else found.target > above


def _made(make: Callable[..., tuple[NDArray, NDArray]], **how: object) -> tuple[NDArray, NDArray]:
    x, y = make(**how)
    return _ranged(x), y


def _digits() -> tuple[NDArray, NDArray]:
    """As images, which they are to the rule."""
    found = datasets.load_digits()
    return found.images[:, None] / 8 - 1, found.target


def _friedman() -> tuple[NDArray, NDArray]:
    x, y = datasets.make_friedman1(6000, noise=1.0, random_state=6)
    return _ranged(x), y > 14.4


_classes = partial(_made, datasets.make_classification)
TABLES: Mapping[str, Made] = {
    "digits": Made(_digits),
    "breast cancer": Made(partial(_shipped, datasets.load_breast_cancer)),
    "diabetes": Made(partial(_shipped, datasets.load_diabetes, above=140)),
    "wine": Made(partial(_shipped, datasets.load_wine)),
    "five classes": Made(
        partial(_classes, n_samples=10000, n_informative=10, n_classes=5, class_sep=1.5, random_state=1)
    ),
    "two classes": Made(partial(_classes, n_samples=5000, n_informative=5, flip_y=0.02, random_state=2)),
    "one in twenty": Made(
        partial(_classes, n_samples=20000, n_features=30, n_informative=10, weights=[0.95], random_state=3)
    ),
    "census": Made(_census),
    "moons": Made(partial(_made, datasets.make_moons, n_samples=5000, noise=0.2, random_state=5), "mlp"),
    "friedman": Made(_friedman, "mlp"),
}


def main() -> None:
    options = parser().parse_args()
    torch.set_num_threads(1)
    lines = Lines(options.out)
    with TemporaryDirectory() as folder:
        for name in options.tables:
            for epsilon in options.epsilons:
                for seed in range(options.seeds):
                    key = {"table": name, "epsilon": epsilon, "seed": seed}
                    lines.measure(key, partial(measured, name, epsilon, seed, Path(folder)))
    say(summary(lines.read()))


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m benchmarks.tables")
    made.add_argument("--out", type=Path, required=True, help="file of results; what it has is kept")
    made.add_argument("--tables", type=some_of(TABLES), default=list(TABLES))
    made.add_argument("--epsilons", type=lambda text: [float(one) for one in text.split(",")], default=[1, 3])
    made.add_argument("--seeds", type=int, default=4)
    return made


def measured(name: str, epsilon: float, seed: int, folder: Path) -> Line:
    """Each score of the rule, of each cell of the grid, and without privacy; the rule's bound and rate."""
    config = config_of(name, epsilon, seed, folder)
    data, test = data_of(config, "train"), data_of(config, "test")
    task = task_of(config)
    task.form = data.form
    made_up = rule.made_up(config)
    norm = made_up.norm
    found = ruled(config, [len(data)], made_up, rule.MOST_EPOCHS, None)
    bound, rate, entry = found.config.max_grad_norm, found.config.learning_rate, found.forecast.mechanisms[0]
    grid = [(one * norm, product * bound * rate / (one * norm)) for one in BOUNDS for product in PRODUCTS]
    bounds, rates = torch.tensor([(bound, rate), *grid]).unbind(1)
    batch = min(found.config.expected_batch_size, len(data))
    steps = entry.steps * found.config.rounds
    runs = Runs(bounds, rates, batch, steps, found.config.momentum, entry.noise_multiplier)
    free = Runs(torch.tensor([math.inf]), rates[:1], batch, steps, found.config.momentum, 0.0)
    line: dict[str, object] = {"bound": bound, "rate": rate, "norm": norm, "noise": entry.noise_multiplier}
    layers = [one for one in new_model(task).modules() if isinstance(one, torch.nn.Linear)]
    for what, settings in (("grid", runs), (WITHOUT, free)):
        weights = weights_of(layers, len(settings.bounds))
        train(weights, *_flat(data), settings, seed)
        of_all = scores(weights, *_flat(test))
        if what == WITHOUT:
            line[WITHOUT] = {score: of_all[score][0] for score in SCORES}
            continue
        line[RULE] = {score: of_all[score][0] for score in SCORES}
        line["grid"] = {score: of_all[score][1:] for score in SCORES}
    return line


def _flat(data: TensorData) -> tuple[Tensor, Tensor]:
    inputs, classes = data.batch(torch.arange(len(data)))
    return inputs.flatten(1), classes


def config_of(name: str, epsilon: float, seed: int, folder: Path) -> RunConfig:
    """One client that has four fifths of the table, and a server that has the rest."""
    file = folder / f"{name.replace(' ', '-')}-{seed}.npz"
    if not file.exists():
        x, y = TABLES[name].make()
        order = np.random.default_rng(seed).permutation(len(x))
        test, train = order[: len(x) // 5], order[len(x) // 5 :]
        arrays = {
            f"{what}_{split}": part[rows].astype(kind)
            for split, rows in (("train", train), ("test", test))
            for what, part, kind in (("x", x, np.float32), ("y", y, np.int64))
        }
        np.savez(file, classes=np.unique(y.astype(int)).astype(str), **arrays)
    return RunConfig(
        data=f"npz:{file}", model=TABLES[name].model, epsilon=epsilon, delta=1e-5, seed=seed,
        clients=1, min_clients=1, fit_clients=1,
    )  # fmt: skip


def summary(lines: Sequence[Line]) -> str:
    """A row for each table and epsilon; below, the geometric mean of log loss over the best of the grid."""
    rows: list[list[str]] = []
    ratios: dict[float, list[float]] = {}
    for name, epsilon in dict.fromkeys((line["table"], line["epsilon"]) for line in lines):
        found = [line for line in lines if (line["table"], line["epsilon"]) == (name, epsilon)]
        ours = {score: statistics.mean(line[RULE][score] for line in found) for score in SCORES}
        grid = {score: np.mean([line["grid"][score] for line in found], 0) for score in SCORES}
        ratio = ours["log loss"] / grid["log loss"].min()
        ratios.setdefault(epsilon, []).append(math.log(ratio))
        rows.append([
            name, f"{epsilon:g}", mean([line[RULE]["log loss"] for line in found]),
            f"{grid['log loss'].min():.3f}", f"{ratio:.3f}", f"{ours['brier']:.3f}",
            f"{grid['brier'].min():.3f}", f"{ours['accuracy']:.3f}", f"{grid['accuracy'].max():.3f}",
            mean([line[WITHOUT]["log loss"] for line in found]),
        ])  # fmt: skip
    headings = (
        "table", "epsilon", "log loss", "best of grid", "ratio", "Brier", "best", "accuracy", "best", WITHOUT,
    )  # fmt: skip
    means = [
        f"epsilon {epsilon:g}: geometric mean of {len(logs)} ratios {_in_words(logs)}"
        for epsilon, logs in ratios.items()
    ]
    return "\n".join([table(headings, rows, left=1), "", *means])


def _in_words(logs: Sequence[float]) -> str:
    """With its standard error over tables."""
    error = statistics.stdev(logs) / len(logs) ** 0.5 if len(logs) > 1 else 0.0
    return f"{math.exp(statistics.mean(logs)):.3f} ± {error:.3f}"


if __name__ == "__main__":
    main()
