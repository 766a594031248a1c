"""Poisson sampling: logical batches of random size, cut into physical batches that fit in memory."""

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from fl_dp.engine.noise.generators import system_generator
from fl_dp.engine.noise.randomness import Randomness
from fl_dp.errors import ConfigError

Batch = TypeVar("Batch")


def poisson_draw(num_records: int, sample_rate: float, source: Randomness | torch.Generator) -> Tensor:
    """Indices of one logical batch: each record enters independently with `sample_rate`.

    source: used for this draw alone if it is a Randomness; then a record enters if 64 random bits are below
    sample_rate 2^64, rounded down. A torch.Generator gives float64 numbers of 53 bits: in float32 the rate
    would be wrong by up to 2^-24.
    """
    if not 0.0 < sample_rate <= 1.0:
        raise ConfigError(f"Expected sample_rate={sample_rate} in (0, 1].")
    if isinstance(source, torch.Generator):
        draws = torch.rand(num_records, dtype=torch.float64, generator=source)
        return (draws < sample_rate).nonzero().squeeze(1)
    if sample_rate == 1.0:
        return torch.arange(num_records)
    words = source.stream().words(num_records, np.uint64)
    return torch.from_numpy(np.flatnonzero(words < np.uint64(math.ldexp(sample_rate, 64))))


def physical_batches(indices: Tensor, physical_batch_size: int) -> Iterator[Tensor]:
    """Cut a logical batch into parts of at most `physical_batch_size`; none for an empty draw."""
    if physical_batch_size < 1:
        raise ConfigError(f"Expected physical_batch_size={physical_batch_size} >= 1.")
    for start in range(0, len(indices), physical_batch_size):
        yield indices[start : start + physical_batch_size]


class PoissonSampler:
    """Poisson logical batches for any `Dataset`, as physical batches for a `DataLoader`.

        sampler = PoissonSampler(len(dataset), expected_batch_size=256, physical_batch_size=64)
        loader = DataLoader(dataset, batch_sampler=sampler)
        for batches in sampler.logical_batches(loader):
            for x, y in batches:
                optimizer.virtual_step(loss=criterion(model(x), y))
            optimizer.step(loss=None)

    One turn of the outer loop is one step. An empty draw is a step, too: its inner loop has no turn. A
    plain loop over the loader would lose such steps, and is refused.

    The sample rate is expected_batch_size over num_records. steps: logical batches in one pass over
    `logical_batches`; None for as many as an epoch has. generator: used for nothing else; None for one from
    the system's entropy. The loader may prefetch, with any number of workers.
    """

    def __init__(
        self,
        num_records: int,
        *,
        expected_batch_size: int,
        physical_batch_size: int,
        steps: int | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        if not 1 <= expected_batch_size <= num_records:
            raise ConfigError(
                f"Expected 1 <= expected_batch_size={expected_batch_size} <= num_records={num_records}."
            )
        if physical_batch_size < 1:
            raise ConfigError(f"Expected physical_batch_size={physical_batch_size} >= 1.")
        self.num_records, self.physical_batch_size = num_records, physical_batch_size
        self.sample_rate = expected_batch_size / num_records
        self.steps = -(-num_records // expected_batch_size) if steps is None else steps
        if self.steps < 1:
            raise ConfigError(f"Expected steps={self.steps} >= 1.")
        self._generator = system_generator() if generator is None else generator
        # The position of the training loop; the loader may be ahead of it.
        self._steps_done = 0
        self._batches_done = 0  # physical batches of the step that has begun
        self._state = self._generator.get_state()  # before the draw of that step
        # The draws by which the loader is ahead: the number of physical batches of each, and the generator's
        # state after it. None while no loop over `logical_batches` runs.
        self._draws: deque[tuple[int, Tensor]] | None = None

    def __iter__(self) -> Iterator[list[int]]:
        """Physical batches of indices, for the loader that was given to `logical_batches`."""
        if self._draws is None:
            raise ConfigError(
                "A loop over the loader alone would not see empty draws, which are steps too; "
                "loop over sampler.logical_batches(loader)."
            )
        return self._physical_batches(self._draws)

    def _physical_batches(self, draws: deque[tuple[int, Tensor]]) -> Iterator[list[int]]:
        skip = self._batches_done
        for _ in range(self._steps_done, self.steps):
            indices = poisson_draw(self.num_records, self.sample_rate, self._generator)
            parts = list(physical_batches(indices, self.physical_batch_size))[skip:]
            skip = 0
            draws.append((len(parts), self._generator.get_state()))
            for part in parts:
                yield part.tolist()

    def logical_batches(self, loader: Iterable[Batch]) -> Iterator[Iterator[Batch]]:
        """For every step the physical batches of its draw; none for an empty draw.

        loader: iterates over this sampler; a DataLoader, or the sampler itself.

        | the last loop | the next loop |
        |---|---|
        | left early | goes on after the last physical batch that was handed out |
        | finished | starts again with new draws |

        If an inner loop is left early, the rest of its physical batches is skipped when the outer loop
        goes on.
        """
        if not getattr(loader, "in_order", True):
            raise ConfigError("A DataLoader with in_order=False mixes batches of several steps.")
        self._generator.set_state(self._state)
        draws = self._draws = deque()
        try:
            yield from self._steps(loader, draws)
            self._steps_done = 0
        finally:
            if self._draws is draws:  # else another loop has begun since
                self._draws = None

    def _steps(self, loader: Iterable[Batch], draws: deque[tuple[int, Tensor]]) -> Iterator[Iterator[Batch]]:
        source, ahead = iter(loader), list[Batch]()

        def take() -> Batch:
            return ahead.pop() if ahead else next(source)

        while self._steps_done < self.steps:
            if not draws:  # let the loader draw
                ahead.extend(islice(source, 1))
            if not draws:
                raise ConfigError(
                    "The loader does not draw from this sampler; give it batch_sampler=sampler."
                )
            count, state_after = draws.popleft()
            batches = self._one_step(count, state_after, take)
            yield batches
            for _ in batches:
                pass

    def _one_step(self, count: int, state_after: Tensor, take: Callable[[], Batch]) -> Iterator[Batch]:
        for _ in range(count):
            batch = take()
            self._batches_done += 1
            yield batch
        self._steps_done, self._batches_done, self._state = self._steps_done + 1, 0, state_after

    def state_dict(self) -> dict[str, Any]:
        """The position of the training loop, to within a physical batch, for `load_state_dict`.

        It shows which records are drawn next: keep it as secret as the data.
        """
        return {
            "settings": self._settings(),
            "steps": self._steps_done,
            "batches": self._batches_done,
            "generator": self._state.clone(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on at the position of the sampler of `state`: the next `logical_batches` starts there.

        Raises ConfigError when that sampler had other settings, and so would draw other batches.
        """
        if state["settings"] != self._settings():
            raise ConfigError(
                f"The saved PoissonSampler had {state['settings']}, this one has {self._settings()}."
            )
        self._steps_done, self._batches_done = state["steps"], state["batches"]
        self._state = state["generator"].cpu()

    def _settings(self) -> dict[str, float]:
        return {
            "num_records": self.num_records,
            "sample_rate": self.sample_rate,
            "physical_batch_size": self.physical_batch_size,
        }
