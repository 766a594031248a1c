"""Which kernel each layer uses: by formula where it is clear, by measurement on this machine where not."""

import time
from dataclasses import dataclass, field
from typing import Literal

import torch

from fl_dp.engine.forms import Form

Mode = Literal["mixed", "ghost", "instantiate"]

# Fewer examples tell too little about time; until there are more, the formula decides.
ENOUGH_EXAMPLES = 8
# Outside these bounds of 2 T^2 / (p d) memory decides, whatever the time: the loser is not even tried.
CLEAR_GHOST, CLEAR_INSTANTIATE = 1 / 8, 8.0


@dataclass
class Planner:
    """Chooses a kernel for a form and remembers the choice for every form of the same signature.

    mixed: mixed ghost clipping (Bu, Mao, Xu 2022): the rule 2 T^2 <= p d, and between the bounds
    above what runs faster, measured once. ghost, instantiate: always that.
    """

    mode: Mode = "mixed"
    chosen: dict[tuple[object, ...], str] = field(default_factory=dict)

    def kernel(self, form: Form) -> str:
        candidates = self._candidates(form)
        if len(candidates) == 1:
            return candidates[0]
        if form.signature not in self.chosen:
            if form.num_examples < ENOUGH_EXAMPLES:
                return "ghost" if form.ghost_ratio <= 1 and "ghost" in candidates else candidates[-1]
            self.chosen[form.signature] = min(candidates, key=lambda kernel: _seconds(form, kernel))
        return self.chosen[form.signature]

    def _candidates(self, form: Form) -> tuple[str, ...]:
        ghost = tuple(k for k in form.kernels if k == "ghost")
        instantiate = tuple(k for k in form.kernels if k != "ghost")
        if not ghost or self.mode == "instantiate":
            return instantiate
        if self.mode == "ghost" or form.ghost_ratio <= CLEAR_GHOST:
            return ghost
        return instantiate if form.ghost_ratio >= CLEAR_INSTANTIATE else ghost + instantiate


def _seconds(form: Form, kernel: str) -> float:
    """Time of norm and weighted sum together, the second of two runs."""
    for _ in range(2):
        start = time.perf_counter()
        kept = form.keep(kernel)
        kept.weighted_sum(torch.ones_like(kept.norm_squared), None)
        if kept.norm_squared.is_cuda:
            torch.cuda.synchronize()
        seconds = time.perf_counter() - start
        del kept  # else the next kernel runs beside what this one holds
    return seconds
