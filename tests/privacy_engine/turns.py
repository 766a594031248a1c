"""A loop of `engine.loss`, `backward` and `step`, and what it should have trained."""

import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from attached import losses_of, small_batch, small_engine, small_model
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from twin import Twin

RECORDS, BATCH = 24, 3  # an empty draw every 25 steps
ONES = {"batch_size": RECORDS, "sample_size": RECORDS}  # every draw is all records
HALF = {"batch_size": 12}  # two draws, which are empty once in 2^24


def setting(
    model: nn.Module | None = None,
    *,
    physical: int | None = None,
    dataset: Any = None,
    loader_size: int = BATCH,
    **options: Any,
) -> tuple[Any, Any, Any, Any]:
    """Model in float64, its optimizer, its engine and the loader of draws."""
    model, (x, y) = model or small_model().double(), small_batch(RECORDS)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    usual = {"batch_size": BATCH, "sample_size": RECORDS, "noise_multiplier": 1.0, "max_grad_norm": 0.3}
    made = {"losses_of": lambda x, y: losses_of(model, x, y), **usual, **options}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="noise_multiplier=0")
        engine = small_engine(model, **made)
    loader = DataLoader(dataset or TensorDataset(x.double(), y), batch_size=loader_size, shuffle=True)
    return model, optimizer, engine, engine.attach(optimizer, loader=loader, physical_batch_size=physical)


def turn(engine: Any, optimizer: Any, batch: Iterable[Any]) -> None:
    engine.loss(*batch).backward()
    optimizer.step()
    optimizer.zero_grad()


def first_of(engine: Any, optimizer: Any, loader: Iterable[Any]) -> Any:
    """The first batch with records, after the steps of empty ones."""
    for batch in loader:
        if len(batch[0]):
            return batch
        turn(engine, optimizer, batch)
    raise AssertionError


def ahead(loader: Iterable[Any], by: int) -> Iterator[Any]:
    """As trainers fetch batches: `by` of them before the first is used."""
    batches, line = iter(loader), []
    for batch in batches:
        line.append(batch)
        if len(line) > by:
            yield line.pop(0)
    yield from line


class ByHand:
    """What a loop should have trained: one backward per example. Made before the loop."""

    def __init__(self, model: nn.Module, *, batch_size: int = BATCH, noise: float = 0.0) -> None:
        self.twin, self._batch_size, self._noise = Twin(model), batch_size, noise
        self.optimizer = torch.optim.SGD(self.twin.model.parameters(), lr=0.5)

    def step(self, *batch: Any, losses: Any = losses_of) -> None:
        self.twin.set_grads(
            losses,
            [batch],
            batch_size=self._batch_size,
            noise_multiplier=self._noise,
            max_grad_norm=0.3,
        )
        self.optimizer.step()
