"""Counts an engine's steps, and what could not be checked about them."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sized
from typing import Any
from weakref import ref

import torch
from torch import nn

from fl_dp.engine.noise.randomness import Randomness
from fl_dp.engine.sampling import PoissonSampler, Sources
from fl_dp.errors import ConfigError
from fl_dp.privacy_engine.counts import Count, Series, records_behind
from fl_dp.privacy_engine.spent import BACK, CONTINUED, DRAW_SOURCE, DRAWS, OTHERS, PUBLIC


class Steps:
    """The steps of one engine, with all that count beside them. An attached sampler counts its draws, too."""

    def __init__(self, sample_size: int, sample_rate: float, noise_multiplier: float) -> None:
        self._sample_size, self._sample_rate = sample_size, sample_rate
        self.count = Count(Series(sample_rate, noise_multiplier))
        self._open: Counter[str] = Counter()  # name in `spent.py` -> steps of which that was not seen
        self._sampler: PoissonSampler | None = None

    @property
    def taken(self) -> int:
        """Steps of this engine, and of the states that it has loaded."""
        return self.count.steps_of_line

    def begin(
        self, holder: object, module: nn.Module, trained: Iterable[nn.Parameter], *, are_public: bool
    ) -> None:
        """Count with the engines that moved this model's weights, until `leave`. Raises as `Count.join`.

        holder: lives as long as the engine is attached. are_public: what was counted before does not count.
        """
        own = list(trained)
        known = {id(one) for one in own}
        read = [one for one in module.parameters() if id(one) not in known]
        forgotten = self.count.join(own, "these weights", anew=are_public)
        forgotten |= self.count.join(read, "weights of this model", moved=False, anew=are_public)
        if before := sum(one.taken for one in forgotten):
            self._open[PUBLIC] = before
        self.count.own.holder = ref(holder)

    def watch(
        self,
        sampler: PoissonSampler | None,
        see: Callable[[object], None] = lambda dataset: None,
        sources: Sources | None = None,
    ) -> None:
        """Require every step from now on to be one draw of `sampler`; ConfigError if its draws differ.

        see: called with the data set at the start of each loop; None if the loader has none. sources: as in
        `PoissonSampler.register`.
        """
        if sampler is None:
            return
        if sampler.num_records != self._sample_size:
            raise ConfigError(
                f"The sampler draws from {sampler.num_records} records, but the engine has "
                f"sample_size={self._sample_size}; give both the same number."
            )
        if sampler.sample_rate != self._sample_rate:
            raise ConfigError(
                f"The sampler draws at rate {sampler.sample_rate}, but the engine accounts for steps at "
                f"rate {self._sample_rate}; give both the same batch size and data set size."
            )
        sampler.register(self._join_data, sources)  # if it refuses, another's sampler is not released
        self._sampler, self._see = sampler, see

    def _join_data(self, dataset: object) -> None:
        """Count with the engines that drew from this data set; ConfigError for another number of records."""
        if dataset is not None and not isinstance(dataset, Sized):
            raise ConfigError(
                f"{type(dataset).__name__}, the loader's data set, has no __len__: nobody could see that it "
                f"has the {self._sample_size} records that epsilon is computed for. Give it one."
            )
        if isinstance(dataset, Sized) and len(dataset) != self._sample_size:
            raise ConfigError(
                f"The loader's data set has {len(dataset)} records, but the sampler draws from "
                f"{self._sample_size}: epsilon would be for other draws. Give both, and sample_size, "
                "len(dataset); for a part of the data use a torch.utils.data.Subset."
            )
        self.count.join(records_behind(dataset), "this data set")
        self._see(dataset)

    def leave(self) -> None:
        """Release the sampler; the next engine over the same weights or records continues the count."""
        if self._sampler is not None:
            self._sampler.release()
        self._sampler = None
        self.count.own.holder = None

    def check_drawn(self) -> None:
        """ConfigError if a sampler is watched and none of its draws waits for a step."""
        if self._sampler is not None:
            self._sampler.check_drawn()

    def take(self, examples: int, unseen: set[str]) -> "Randomness | torch.Generator | None":
        """Count one step of `examples` losses; ConfigError, and no step, unless these are the open draw, and
        the engine knows the steps that the sampler has behind it.

        unseen: names of what was not seen of the step, besides its draw. Returns where the draw came from.
        """
        source = None
        if self._sampler is not None:
            if (behind := self._sampler.steps_done) > self.taken:
                raise ConfigError(
                    f"The sampler has taken {behind} steps of this pass, but the engine has counted "
                    f"{self.taken}: epsilon would be too small. Load the engine's state_dict(), too."
                )
            source = self._sampler.step_taken(examples)
        self._open.update(unseen | self._unseen_draw())
        self.count.own.taken += 1
        return source

    def _unseen_draw(self) -> set[str]:
        if self._sampler is None:
            return {DRAWS}
        return set() if self._sampler.is_own_generator else {DRAW_SOURCE}

    def unseen(self, steps: int, next_step: set[str]) -> dict[str, int]:
        """What was not seen of the steps so far, and of later ones if `steps` has some.

        next_step: as `take` would get it.
        """
        found = dict(self._open)
        if others := self.count.steps - self.taken - self.count.unprotected:
            found[OTHERS] = others
        if steps > self.count.steps:
            found = {**dict.fromkeys(next_step | self._unseen_draw(), steps), **found}
        return found

    def note(self, name: str) -> None:
        """Name something that was not seen, of no step alone."""
        self._open[name] = max(self._open[name], 1)

    def state_dict(self) -> dict[str, Any]:
        return {"series": [one.to_dict() for one in self.count.series], "unseen": dict(self._open)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state`. No step that was counted is forgotten."""
        saved = sum(row["taken"] for row in state["series"])
        if self.count.load(state["series"]):
            self._open.update({**state["unseen"], CONTINUED: 1})
        elif (back := self.count.steps - saved) > self._open[BACK]:
            self._open[BACK] = back
