"""A loader of Poisson draws: one turn of the loop is one logical batch.

Trainers fetch batches ahead of their steps, so draws wait in a queue. The next loss, backward pass and step
belong to the first draw without a step.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, RandomSampler, SequentialSampler
from torch.utils.weak import WeakIdKeyDictionary

from fl_dp.engine.noise.randomness import Randomness
from fl_dp.engine.sampling import PoissonSampler, _Draw
from fl_dp.engine.tracing.structure import tensors
from fl_dp.errors import ConfigError
from fl_dp.privacy_engine.batch_rows import rows_of

# Settings that the loader of draws takes over from the user's loader.
KEPT = (
    "num_workers",
    "collate_fn",
    "pin_memory",
    "timeout",
    "worker_init_fn",
    "multiprocessing_context",
    "generator",
    "prefetch_factor",
    "persistent_workers",
)


class DrawLoader:
    """Iterates over the batches of Poisson draws, an empty one included; `PrivacyEngine.attach` makes it.

    A loop that is left early and started again first gets the draws that had no step.
    `state_dict` and `load_state_dict` are those of its sampler (`PoissonSampler.state_dict`).

    dataset: of the user's loader. batch_size: the mean number of records of a turn.
    """

    def __init__(self, loader: DataLoader[Any], num_records: int, batch_size: int) -> None:
        check_loader(loader)
        self.dataset, self.batch_size = loader.dataset, batch_size
        self.sampler = TurnSampler(num_records, batch_size, self._no_rows)
        kept = {name: getattr(loader, name) for name in KEPT}
        self._loader: DataLoader[Any] = DataLoader(loader.dataset, batch_sampler=self.sampler, **kept)

    def __len__(self) -> int:
        """Steps of an epoch; a public number."""
        return self.sampler.steps

    def __iter__(self) -> Iterator[Any]:
        batches, is_last = self.sampler.logical_batches(self._loader), False
        while not is_last:  # the last steps may come later: `TurnSampler` ends the pass then
            with secret_masks():
                is_last, batch = next(batches, (True, None))
            if batch is not None:  # else no more is paid for
                yield batch

    def state_dict(self) -> dict[str, Any]:
        return self.sampler.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.sampler.load_state_dict(state)

    def _no_rows(self, like: Any) -> Any:
        """like: the batch before, None if there was none. No collator is asked for a batch of nothing."""
        if like is None:
            like = self._loader.collate_fn([self.dataset[0]])
        return rows_of(like, slice(0))


class TurnSampler(PoissonSampler):
    """Draws that are handed out whole, one in each turn, and wait in line for their steps.

    no_rows: makes the batch of an empty draw, from the one before.
    """

    def __init__(self, num_records: int, batch_size: int, no_rows: Callable[[Any], Any]) -> None:
        super().__init__(num_records, expected_batch_size=batch_size, physical_batch_size=num_records)
        self._no_rows = no_rows
        self._waiting: deque[_Draw] = deque()
        self._is_over = False  # whether the pass has handed out its last draw
        self._drawn: Any = WeakIdKeyDictionary()  # a tensor that was handed out -> its draw

    def _steps(self, loader: Iterable[Any], draws: deque[_Draw | None]) -> Iterator[Any]:
        """Each draw's batch, and whether it is the last one of the pass."""
        source, ahead, before = iter(loader), deque[Any](), None
        waiting, self._is_over = deque[_Draw](), False
        self._waiting = waiting
        for left in reversed(range(self.steps - self._steps_done)):
            if not draws:  # let the loader draw
                ahead.extend(islice(source, 1))
            draw = draws.popleft()
            self._is_over = draw is None or not left
            if draw is None:  # no more is paid for: the pass ends here
                return
            if draw.sizes:
                batch = ahead.popleft() if ahead else next(source)
                before = rows_of(batch, slice(0))
            else:
                batch = self._no_rows(before)
            for _, tensor in tensors(batch):
                self._drawn[tensor] = draw
            waiting.append(draw)
            yield not left, batch

    def check_drawn(self) -> _Draw:
        """The first draw that waits for its step; ConfigError if there is none."""
        if not self._waiting:
            raise ConfigError(
                "No draw waits for a step: a turn of the loop over the loader that attach(optimizer, "
                "loader=loader) returned is one draw, with one backward() and one optimizer.step()."
            )
        return self._waiting[0]

    def check_batch(self, given: Iterable[Tensor], rows: int) -> None:
        """ConfigError unless these are the rows of the first draw that waits for its step."""
        draw = self.check_drawn()
        others = [one for tensor in given if (one := self._drawn.get(tensor)) is not None and one is not draw]
        if others or rows != draw.drawn:
            raise ConfigError(
                "This batch is not the draw whose turn it is, the first one without a step. Each draw has "
                "one step, an empty one too, and its batch goes in whole: skip no turn, add and remove no "
                "rows, and do not gather turns for one step (gradient accumulation): attach("
                "physical_batch_size=...) saves the memory. To evaluate, call the model. A new loop begins "
                "with this draw."
            )

    def check_whole(self, examples: int) -> _Draw:
        """The first draw that waits for its step; ConfigError unless it has so many records."""
        if examples != (draw := self.check_drawn()).drawn:
            raise ConfigError("The number of losses of this step is not the number of records of its draw.")
        return draw

    def _complete(self, draw: _Draw) -> None:
        super()._complete(draw)
        self._waiting.popleft()
        if self._is_over and not self._waiting:
            self._steps_done = 0

    def release(self) -> None:
        """No engine sees this sampler any more."""
        super().release()
        self._waiting.clear()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue at the position of the sampler of `state`, with new draws."""
        super().load_state_dict(state)
        self._waiting.clear()


def secret_masks(*devices: torch.device) -> AbstractContextManager[None]:
    """In this context torch's global random numbers are secret. Later they continue as if none were drawn.

    Trainers seed torch with a public number and save its state. So dropout's masks would be known, and also
    how many numbers the draws have used, which reveals their sizes.
    """
    return Randomness.system().in_torch(*devices)


def check_loader(loader: object) -> None:
    """ConfigError unless Poisson draws can replace this loader's batches."""
    if type(loader) is not DataLoader:
        raise ConfigError(
            f"attach: expected loader= an ordinary torch.utils.data.DataLoader, not {type(loader).__name__}, "
            "and before accelerate or a trainer has wrapped it."
        )
    sampler = loader.sampler
    found = {
        "an IterableDataset cannot be drawn from; give the data set __getitem__ and __len__": isinstance(
            loader.dataset, IterableDataset
        ),
        "a batch_sampler of your own would not draw; give batch_size": loader.batch_size is None,
        f"the sampler {type(sampler).__name__} would not draw, and weights or shards of records change what "
        "a record's rate is; leave it out": not (
            type(sampler) is SequentialSampler
            or (type(sampler) is RandomSampler and not sampler.replacement and sampler._num_samples is None)
        ),
        "drop_last=True has nothing to drop, as draws differ in size; leave it out": loader.drop_last,
        "in_order=False would mix the batches of several steps; leave it out": not loader.in_order,
    }
    for why, holds in found.items():
        if holds:
            raise ConfigError(f"attach(loader=...) cannot take this DataLoader: {why}.")
