"""Which settings suit schools that are made up, so that no record has a say: python choose.py.

All schools in full batches and in one process, as run.toml asks: 20 rounds of 5 steps at epsilon 6, with the
noise that fl_dp calibrates. Prints the best settings of each way to learn; measure.py has them.
"""

import argparse
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from made_up import schools
from prepare import parts, scaled

from fl_dp.accounting.calibration import calibrate_noise

Array = np.ndarray
ROUNDS, STEPS, EPSILON, DELTA = 20, 5, 6.0, 1e-3
RATES = (0.025, 0.05, 0.1, 0.2)
BOUNDS = (0.25, 0.5, 1.0, 2.0)
PULLS = (0.1, 0.3, 1.0, 3.0)


class Records(NamedTuple):
    """K schools' records, filled up with zeros to N."""

    x: Array  # (K, N, d), the last input is a constant 1
    y: Array  # (K, N)
    there: Array  # (K, N) 1 where there is a record, else 0


@dataclass(frozen=True)
class Way:
    """alone is mr-mtl with pull 0."""

    local_algorithm: str
    learning_rate: float
    max_grad_norm: float
    pull: float = 0.0


def learn(train: Records, way: Way, noise: float, rng: np.random.Generator) -> Array:
    """Each school's weights (K, d) after the last round; of fedavg all rows are the common ones.

    noise: its multiplier; 0: without privacy, and then without clipping.
    """
    count = train.there.sum(axis=1)
    shared = np.zeros(train.x.shape[2])
    own = np.tile(shared, (len(count), 1))
    for _ in range(ROUNDS):
        if way.local_algorithm == "fedavg":
            own = np.tile(shared, (len(count), 1))
        for _ in range(STEPS):
            gradient = _sums(train, own, way.max_grad_norm, noise, rng) / count[:, None]
            own = own - way.learning_rate * (gradient + way.pull * (own - shared))
        shared = np.average(own, axis=0, weights=count)
    return np.tile(shared, (len(count), 1)) if way.local_algorithm == "fedavg" else own


def _sums(train: Records, own: Array, bound: float, noise: float, rng: np.random.Generator) -> Array:
    """(K, d) each school's sum of its records' gradients of squared errors, clipped and noised."""
    slopes = 2 * (np.einsum("knd,kd->kn", train.x, own) - train.y) * train.there
    if noise:
        lengths = np.abs(slopes) * np.linalg.norm(train.x, axis=2)
        slopes = slopes * np.minimum(1, bound / np.maximum(lengths, 1e-12))
    return np.einsum("kn,knd->kd", slopes, train.x) + noise * bound * rng.standard_normal(own.shape)


def error(own: Array, test: Records) -> float:
    """The mean over schools of each one's mean squared error, weighted by its test records."""
    squares = ((np.einsum("knd,kd->kn", test.x, own) - test.y) * test.there) ** 2
    return float(squares.sum() / test.there.sum())


def stacked(each: list[tuple[Array, Array]]) -> Records:
    longest = max(len(y) for _, y in each)
    filled = [np.pad(np.c_[x, np.ones(len(x))], ((0, longest - len(x)), (0, 0))) for x, _ in each]
    targets = [np.pad(y, (0, longest - len(y))) for _, y in each]
    return Records(np.stack(filled), np.stack(targets), np.stack([f[:, -1] for f in filled]))


def made(seed: int) -> tuple[Records, Records]:
    """Training and test records of schools that are made up."""
    cut = [parts(*scaled(x, y.ravel()), seed) for x, y in schools(seed)]
    return (
        stacked([(one["x_train"], one["y_train"]) for one in cut]),
        stacked([(one["x_test"], one["y_test"]) for one in cut]),
    )


def ways() -> Iterator[Way]:
    for rate, bound in itertools.product(RATES, BOUNDS):
        yield Way("fedavg", rate, bound)
        yield from (Way("mr-mtl", rate, bound, pull) for pull in (0.0, *PULLS))


def main() -> None:
    parser = argparse.ArgumentParser(description="The best settings on schools that are made up.")
    parser.add_argument("--seeds", type=int, default=3)
    pairs = [(made(seed), seed) for seed in range(parser.parse_args().seeds)]
    noise = calibrate_noise(1.0, ROUNDS * STEPS, EPSILON, DELTA)
    found = []
    for way in ways():
        errors = [error(learn(a, way, noise, np.random.default_rng(seed)), b) for (a, b), seed in pairs]
        found.append((float(np.mean(errors)), way))
    found.sort(key=lambda one: one[0])
    for name in ("fedavg", "alone", "mr-mtl"):
        best = [one for one in found if _name(one[1]) == name][:5]
        print(name, *(f"  {mse:.5f}  {way}" for mse, way in best), sep="\n")


def _name(way: Way) -> str:
    return way.local_algorithm if way.pull or way.local_algorithm == "fedavg" else "alone"


if __name__ == "__main__":
    main()
