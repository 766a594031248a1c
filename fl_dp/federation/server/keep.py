"""The model that a run keeps: the last, the best on the server's validation half, or a moving average."""

import math
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

import numpy as np
from flwr.app import ArrayRecord, MetricRecord

from fl_dp.config.run import RunConfig
from fl_dp.config.run_settings import AVERAGE, BEST
from fl_dp.errors import ConfigError
from fl_dp.federation.wire.arrays import NDArray, below, encode

DIVERGED = 3.0  # a model has diverged if its loss is more than so many times that of the initial weights

_ARRAY, _NUMBERS, _ROUNDS = "array ", "numbers", "rounds"  # what a state holds

Evaluate = Callable[[int, ArrayRecord], MetricRecord | None]


class Kept(NamedTuple):
    """A model kept beside the last one. which: BEST or AVERAGE; server_round: of the best one, else 0."""

    which: str
    server_round: int
    arrays: ArrayRecord


class LastModel:
    """Keeps no model beside the last one; the base class of the others."""

    def kept(self, last: ArrayRecord) -> Kept | None:
        """The model that is kept beside the last one."""
        return None

    def begin(self, arrays: ArrayRecord, evaluate: Evaluate | None) -> None:
        """Take in the initial weights."""

    def add(self, arrays: ArrayRecord) -> None:
        """Take in the model of a round that was not lost."""

    def measured(self, last: ArrayRecord) -> ArrayRecord:
        """The model that is evaluated after a round."""
        return last

    def update(self, server_round: int, arrays: ArrayRecord, metrics: MetricRecord) -> str:
        """Take in the metrics of the round's model; returns why it has diverged, or empty."""
        return ""

    def state(self) -> dict[str, NDArray]:
        return {}

    def restore(self, state: Mapping[str, NDArray], last: Mapping[str, NDArray]) -> None:
        """Restore that state. last: the model of the last round.

        ConfigError if it is incomplete: otherwise the next round would be paid for, and then fail.
        """
        if state:
            raise _another(f"keeps {sorted(state)[:3]} beside its last model")


class BestModel(LastModel):
    """Keeps the model of the least loss. It has the whole run's epsilon, not its round's: docs/privacy.md."""

    def __init__(self) -> None:
        self._round, self._loss, self._first = 0, math.inf, math.inf
        self._arrays = ArrayRecord()

    def kept(self, last: ArrayRecord) -> Kept | None:
        """The best model so far; None before the start."""
        return Kept(BEST, self._round, self._arrays) if len(self._arrays) else None

    def begin(self, arrays: ArrayRecord, evaluate: Evaluate | None) -> None:
        """Measure the initial weights, to detect divergence later; a resumed run has done so already.

        A loss that is not finite counts as infinite.
        """
        if not len(self._arrays) and evaluate:
            loss = _loss_of(evaluate(0, arrays) or MetricRecord())
            self._first = self._loss = loss if math.isfinite(loss) else math.inf
            self._arrays = arrays

    def update(self, server_round: int, arrays: ArrayRecord, metrics: MetricRecord) -> str:
        """Keep the round's model if it is the best so far; returns why it has diverged, or empty."""
        if not len(self._arrays) or "loss" not in metrics:
            return ""
        loss = _loss_of(metrics)
        if not math.isfinite(loss):
            return f"its loss is not finite: back to the model of round {self._round}"
        if loss > DIVERGED * self._first:
            return (
                f"its loss {loss:.4g} is above {DIVERGED:g} times that of the start, {self._first:.4g}: back "
                f"to the model of round {self._round}"
            )
        if loss < self._loss:
            self._round, self._loss, self._arrays = server_round, loss, arrays
        return ""

    def state(self) -> dict[str, NDArray]:
        """As in `LastModel`; empty before the start."""
        if not len(self._arrays):
            return {}
        numbers = np.array([self._round, self._loss, self._first], dtype=np.float64)
        return {_NUMBERS: numbers, **{_ARRAY + name: array.numpy() for name, array in self._arrays.items()}}

    def restore(self, state: Mapping[str, NDArray], last: Mapping[str, NDArray]) -> None:
        if not state:
            return
        numbers = state.get(_NUMBERS)
        if numbers is None or numbers.shape != (3,):
            raise _another("holds no best model")
        self._round, self._loss, self._first = int(numbers[0]), float(numbers[1]), float(numbers[2])
        self._arrays = encode(below(_ARRAY, state))


DECAY = 0.9  # of the average of models


class AverageModel(LastModel):
    """Keeps a moving average of the rounds' models, which is less noisy than the last one.

    This post-processes noised updates, so it costs no privacy (De et al. 2022, arXiv 2204.13650, average over
    steps in the same way). Clients continue from the last model, never from the average.
    It takes 1 - DECAY of each round's model. The decay begins smaller, (1 + t) / (10 + t) after t rounds, so
    that the first models do not stay in the average for long.
    shared: names of the averaged arrays, which clients train; the others are the last model's.
    """

    def __init__(self, shared: Collection[str]) -> None:
        self._shared = shared
        self._average: dict[str, NDArray] = {}  # float64
        self._rounds = 0

    def kept(self, last: ArrayRecord) -> Kept | None:
        return Kept(AVERAGE, 0, self.measured(last))

    def add(self, arrays: ArrayRecord) -> None:
        decay = min(DECAY, (1 + self._rounds) / (10 + self._rounds)) if self._rounds else 0.0
        for name in self._shared:
            new = arrays[name].numpy().astype(np.float64)
            self._average[name] = decay * self._average.get(name, new) + (1 - decay) * new
        self._rounds += 1

    def measured(self, last: ArrayRecord) -> ArrayRecord:
        """The average, in the shapes and types of the last model; the last model if there is no average."""
        found = {name: array.astype(last[name].numpy().dtype) for name, array in self._average.items()}
        return ArrayRecord({**last, **encode(found)}) if found else last

    def state(self) -> dict[str, NDArray]:
        """As in `LastModel`; empty before the first round."""
        if not self._rounds:
            return {}
        arrays = {_ARRAY + name: one for name, one in self._average.items()}
        return {_ROUNDS: np.array(self._rounds), **arrays}

    def restore(self, state: Mapping[str, NDArray], last: Mapping[str, NDArray]) -> None:
        if not state:
            return
        rounds, own = state.get(_ROUNDS), below(_ARRAY, state)
        shapes = {name: last[name].shape for name in self._shared}
        found = {name: array.shape for name, array in own.items() if _are_numbers(array)}
        others = state.keys() - {_ROUNDS, *(_ARRAY + name for name in shapes)}
        if rounds is None or not _is_count(rounds) or found != shapes or others:
            raise _another("holds no average of this model")
        self._rounds, self._average = int(rounds), own


def kept_model(config: RunConfig, shared: Collection[str]) -> LastModel:
    """By the setting `keep-model`. shared: names of the arrays that clients train."""
    if config.keep_model == AVERAGE:
        return AverageModel(shared)
    return BestModel() if config.keep_model == BEST else LastModel()


def _another(what: str) -> ConfigError:
    return ConfigError(f"the run's state {what}; resume the run with the fl_dp that started it.")


def _loss_of(metrics: MetricRecord) -> float:
    """The loss; NaN if it was not measured."""
    loss = metrics.get("loss")
    return float(loss) if isinstance(loss, int | float) else math.nan


def _are_numbers(array: NDArray) -> bool:
    return array.dtype == np.float64 and bool(np.isfinite(array).all())


def _is_count(array: NDArray) -> bool:
    return array.dtype.kind == "i" and array.shape == () and int(array) >= 1
