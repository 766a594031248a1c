"""Logical batches of random size, by Poisson sampling, and physical batches that fit."""

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, repeat
from typing import Any, NoReturn, SupportsIndex, TypeVar

import numpy as np
import torch
from torch import Tensor

from fl_dp.engine.noise.generators import system_generator
from fl_dp.engine.noise.randomness import Randomness
from fl_dp.errors import ConfigError

Batch = TypeVar("Batch")
Sources = Callable[[int], Iterator[Randomness]]


def poisson_draw(num_records: int, sample_rate: float, source: Randomness | torch.Generator) -> Tensor:
    """One logical batch: each record enters independently with `sample_rate`.

    Args:
        num_records: Number of records in the data set.
        sample_rate: In (0, 1].
        source: If it is a Randomness, used for this draw alone; then a record enters if 64 random bits are
            below sample_rate 2^64, rounded down. A torch.Generator gives float64 numbers of 53 bits: in
            float32 the rate would be wrong by up to 2^-24.

    Returns:
        int64 (n,), indices of the records, in increasing order.

    Raises:
        ConfigError: A rate outside of (0, 1].

    Example:
        >>> import fl_dp, torch
        >>> fl_dp.poisson_draw(4, 1.0, torch.Generator())
        tensor([0, 1, 2, 3])
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


def in_random_order(indices: Tensor, source: Randomness) -> Tensor:
    """The same numbers (n,) in a uniformly random order. source: used for this order alone.

    They are sorted by random words of 64 bits. All words are drawn anew if two of them are equal, so that no
    order is likelier than another.
    """
    stream = source.stream()
    while True:
        words = stream.words(len(indices), np.uint64)
        order = np.argsort(words)
        if (np.diff(words[order]) != 0).all():
            return indices[torch.from_numpy(order)]


def physical_batches(indices: Tensor, physical_batch_size: int) -> Iterator[Tensor]:
    """Cut a logical batch into parts of at most `physical_batch_size`; none for an empty draw."""
    if physical_batch_size < 1:
        raise ConfigError(f"Expected physical_batch_size={physical_batch_size} >= 1.")
    for start in range(0, len(indices), physical_batch_size):
        yield indices[start : start + physical_batch_size]


@dataclass(frozen=True, slots=True)
class _Draw:
    """One logical batch: the physical batches of it that are handed out here, and what follows its draw.

    sizes: of these physical batches. drawn: the records of all, also of those that other ranks take.
    state_after: the generator's state after the draw. source: where the draw came from.
    """

    sizes: tuple[int, ...]
    drawn: int
    state_after: Tensor
    source: Randomness | torch.Generator


class PoissonSampler:
    """Poisson logical batches for any `Dataset`, as physical batches for a `DataLoader`.

    One turn of the outer loop is one step. An empty draw is also a step: its inner loop has no turn. A plain
    loop over the loader would lose such steps, and is refused. The loader may prefetch, with any number of
    workers.

    `PrivacyEngine.attach(optimizer, sampler=sampler)` lets the engine see that each step is one draw. It
    calls `register`, `check_drawn`, `step_taken` and `release`, and with several ranks `spread`.

    Args:
        num_records: Number of records in the data set; the sample rate is expected_batch_size / num_records.
        expected_batch_size: The mean size of a logical batch.
        physical_batch_size: The most records in a pass.
        steps: Logical batches in one pass over `logical_batches`; None for those of one epoch.
        generator: Used for nothing else, and its state must be kept as secret as the data; None for one from
            the system's entropy.

    Raises:
        ConfigError: A size out of range.

    Example:
        >>> import fl_dp, torch
        >>> from torch.utils.data import DataLoader
        >>> records = list(range(100))
        >>> sampler = fl_dp.PoissonSampler(100, expected_batch_size=20, physical_batch_size=8)
        >>> loader = DataLoader(records, batch_sampler=sampler)
        >>> steps = [[len(batch) for batch in batches] for batches in sampler.logical_batches(loader)]
        >>> len(steps), all(size <= 8 for sizes in steps for size in sizes)
        (5, True)
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
        self._num_records, self.physical_batch_size = num_records, physical_batch_size
        self._sample_rate = expected_batch_size / num_records
        self.steps = -(-num_records // expected_batch_size) if steps is None else steps
        if self.steps < 1:
            raise ConfigError(f"Expected steps={self.steps} >= 1.")
        self.is_own_generator = generator is None
        self._generator = system_generator() if generator is None else generator
        # The position of the training loop; the loader may be ahead of it.
        self._steps_done = 0
        self._batches_done = 0  # physical batches of the step that has begun
        self._state = self._generator.get_state()  # before the draw of that step
        # The draws by which the loader is ahead. None if no loop over `logical_batches` is running.
        self._draws: deque[_Draw | None] | None = None
        self._latest: deque[_Draw | None] | None = None  # of the loop that has begun last
        # The draw that was handed out last, if its step has not been taken yet.
        self._open: _Draw | None = None
        self._registered = False  # whether an engine reports which draws have had their step
        self._see: Callable[[object], None] | None = None  # where the engine gets the loader's data set
        self._sources: Sources | None = None  # from which an engine that pays lets it draw
        # Of the ranks that draw together: where their generator comes from, which one this is, how many.
        self._fresh: Callable[[], torch.Generator] = system_generator
        self._rank, self._ranks = 0, 1

    @property
    def num_records(self) -> int:
        """Fixed: draws are priced by it."""
        return self._num_records

    @property
    def sample_rate(self) -> float:
        """Fixed: draws are priced by it."""
        return self._sample_rate

    @property
    def steps_done(self) -> int:
        """Steps of this pass that are behind the training loop, those of a loaded state included."""
        return self._steps_done

    def __iter__(self) -> Iterator[list[int]]:
        """Physical batches of indices, for the loader that was given to `logical_batches`."""
        if self._draws is None:
            raise ConfigError(
                "A loop over the loader alone would not see empty draws, which are steps too; "
                "loop over sampler.logical_batches(loader)."
            )
        return self._physical_batches(self._draws)

    def _physical_batches(self, draws: deque[_Draw | None]) -> Iterator[list[int]]:
        skip, wanted = self._batches_done, self.steps - self._steps_done
        for source in self._sources(wanted) if self._sources else repeat(self._generator, wanted):
            drawing = source.child("draw") if isinstance(source, Randomness) else source
            indices = poisson_draw(self.num_records, self.sample_rate, drawing)
            parts = list(physical_batches(indices, self.physical_batch_size))[self._rank :: self._ranks]
            draws.append(_Draw(tuple(map(len, parts)), len(indices), self._generator.get_state(), source))
            for part in parts[skip:]:
                yield part.tolist()
            skip = 0
        draws.append(None)

    def logical_batches(self, loader: Iterable[Batch]) -> Iterator[Iterator[Batch]]:
        """The physical batches of each step's draw; none for an empty draw.

        loader: iterates over this sampler; a DataLoader, or the sampler itself.

        | the last loop | the next loop |
        |---|---|
        | left early | continues after the last physical batch that was handed out |
        | left early, and an engine sees this sampler | hands out the draw without its step again, whole |
        | finished | starts again with new draws |

        If an inner loop is left early, the rest of its physical batches is skipped when the outer loop
        continues. If an engine sees this sampler, that is an error, and so is a logical batch whose step was
        not taken before the next one.
        """
        if not getattr(loader, "in_order", True):
            raise ConfigError("A DataLoader with in_order=False mixes batches of several steps.")
        if self._see is not None:
            self._see(getattr(loader, "dataset", None))
        if self._registered:
            self._batches_done, self._open = 0, None  # the engine has dropped its part of an open draw
        self._generator.set_state(self._state)
        draws: deque[_Draw | None] = deque()
        self._draws = self._latest = draws
        try:
            yield from self._steps(loader, draws)
            self._steps_done = 0
        finally:
            if self._draws is draws:  # else another loop has begun since
                self._draws = None

    def _steps(self, loader: Iterable[Batch], draws: deque[_Draw | None]) -> Iterator[Iterator[Batch]]:
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
            draw = draws.popleft()
            if draw is None:  # no more is paid for: the pass ends here
                return
            self._check_current(draws)
            self._open = draw
            batches = self._one_step(draw, take, draws)
            yield batches
            if self._registered and self._open is draw:
                raise ConfigError(
                    "A logical batch was left without a step. Each draw, even an empty one, is one step: "
                    "call optimizer.step(loss=None) after its physical batches."
                )
            for _ in batches:
                pass

    def _one_step(
        self, draw: _Draw, take: Callable[[], Batch], draws: deque[_Draw | None]
    ) -> Iterator[Batch]:
        for _ in range(len(draw.sizes) - self._batches_done):
            batch = take()
            self._check_current(draws)
            self._batches_done += 1
            yield batch
        if not self._registered:
            self._complete(draw)

    def _check_current(self, draws: deque[_Draw | None]) -> None:
        """ConfigError in a loop after which another has begun: that one makes the same draws again."""
        if self._latest is not draws:
            raise ConfigError(
                "Another loop over this sampler has begun, and continues with the draws of this one. Loop "
                "over one at a time, or give each loop a sampler, and an engine, of its own."
            )

    def _complete(self, draw: _Draw) -> None:
        self._steps_done, self._batches_done, self._state = self._steps_done + 1, 0, draw.state_after
        self._open = None

    def register(self, see: Callable[[object], None] | None = None, sources: "Sources | None" = None) -> None:
        """From now on a draw ends when its step is taken. ConfigError if an engine sees the sampler already.

        see: called with the data set of the loader, or None, before each loop; it may raise. Then the engine
        drops what it has gathered of a draw.
        sources: gives the source of each draw of a pass, whose number it gets, in place of the sampler's own
        generator; it may end the pass early.

        Two engines on one draw would be two mechanisms with the same secret draws; their epsilons would not
        add up to that of both.
        """
        if self._registered:
            raise ConfigError("Another engine is attached to this sampler; give each a sampler of its own.")
        if self._draws is not None:
            raise ConfigError("The loop over this sampler has begun; attach the engine before it.")
        self._registered, self._batches_done, self._open = True, 0, None
        self._see, self._sources = see, sources

    def release(self) -> None:
        """No engine sees this sampler any more. A draw without its step is handed out again, in full."""
        self._registered, self._batches_done, self._open = False, 0, None
        self._see = self._sources = None
        if self._fresh is not system_generator:
            self.spread(system_generator, 0, 1)

    def spread(self, fresh: Callable[[], torch.Generator], rank: int, ranks: int) -> None:
        """From now on draw as all ranks do, and hand out the passes of one: those with i mod ranks = rank.

        fresh: makes a generator in the same secret state on all ranks, whenever they all call it. With
        generators of their own, or with the numbers of a part of the records, the ranks would not draw one
        Poisson batch. ConfigError for a sampler that was given a generator.
        """
        if not self.is_own_generator:
            raise ConfigError("Several ranks draw from a key that they share; leave out generator=.")
        self._fresh, self._rank, self._ranks = fresh, rank, ranks
        self._generator = fresh()
        self._state = self._generator.get_state()

    def check_drawn(self) -> _Draw:
        """The logical batch that was handed out and has had no step; ConfigError if there is none."""
        if self._open is None:
            raise ConfigError(
                "A step without a draw, or a second step on the same draw: no logical batch was handed out "
                "since the last step. Loop over sampler.logical_batches(loader), one step each."
            )
        return self._open

    def step_taken(self, examples: int) -> "Randomness | torch.Generator":
        """The step on the logical batch that was handed out last is being taken, with `examples` losses.

        Returns where its draw came from. Raises ConfigError, and counts no step, unless `check_whole` finds
        them to be its records.
        """
        draw = self.check_whole(examples)
        self._complete(draw)
        return draw.source

    def check_whole(self, examples: int) -> _Draw:
        """The logical batch that has had no step; ConfigError unless `examples` are all that it has here."""
        draw = self.check_drawn()
        if self._batches_done < len(draw.sizes):
            raise ConfigError(
                "A step before all physical batches of its draw were handed out: a part of a draw is not a "
                "Poisson draw. End the inner loop first."
            )
        if examples != (records := sum(draw.sizes)):
            raise ConfigError(
                f"The losses of this step are {'more' if examples > records else 'fewer'} than the "
                "records of its draw. Each record of the draw has one loss, in one virtual step. Begin a new "
                "loop over sampler.logical_batches(loader): it hands out this whole draw again."
            )
        return draw

    def state_dict(self) -> dict[str, Any]:
        """The position of the training loop, in steps, for `load_state_dict`.

        The generator's state is left out: a sampler that continues from here makes its own draws, so that two
        continuations share none.
        Raises ConfigError in the middle of a logical batch: the rest of a draw cannot be drawn again.
        """
        if self._batches_done:
            raise ConfigError(
                "Asked for the state in the middle of a logical batch: a draw is not saved, so that no two "
                "continuations share it. Save after the step, before the next physical batch."
            )
        return {"settings": self._settings(), "steps": self._steps_done}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue at the position of the sampler of `state`, with new draws.

        Raises ConfigError if that sampler had other settings, and if this one was given a generator: its
        numbers may have made earlier draws.
        """
        if not self.is_own_generator:
            raise ConfigError(
                "A sampler that was given a generator cannot continue from a state: its numbers may have "
                "made earlier draws. Leave out generator=."
            )
        if state["settings"] != self._settings():
            raise ConfigError(
                f"The saved PoissonSampler had {state['settings']}, this one has {self._settings()}."
            )
        self._steps_done, self._batches_done, self._open = state["steps"], 0, None
        self._generator = self._fresh()
        self._state = self._generator.get_state()

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise ConfigError(
            "A copy of a sampler would repeat its draws; make a new one, and load state_dict()."
        )

    def _settings(self) -> dict[str, float]:
        return {
            "num_records": self.num_records,
            "sample_rate": self.sample_rate,
            "physical_batch_size": self.physical_batch_size,
        }
