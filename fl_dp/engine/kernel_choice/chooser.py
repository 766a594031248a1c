"""Which kernel each layer uses: by a formula where that is clear, else by measurement on this machine."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import torch

from fl_dp.engine.gradients.kept import Kept
from fl_dp.engine.gradients.layouts import GradientLayout
from fl_dp.engine.kernel_choice.table import KernelRow, is_ghost
from fl_dp.engine.precision import full_precision
from fl_dp.engine.sum_error import MOST_IN_FLOAT32, additions
from fl_dp.errors import ConfigError, ModelError

Mode = Literal["mixed", "ghost", "instantiate"]

# With fewer examples, times say too little: the formula decides until there are more.
ENOUGH_EXAMPLES = 8
# Outside these bounds of 2 T^2 / (p d) memory decides, whatever the time. Nothing is measured.
CLEAR_GHOST, CLEAR_INSTANTIATE = 1 / 4, 8.0
# If all gradients of the layer fit into this many bytes (a core's second-level cache), time decides instead.
# Only below the second bound a ghost norm is sure to take less time.
LITTLE_BYTES, CLEAR_GHOST_OF_LITTLE = 2**21, 1 / 32
# A kernel that keeps less may take this many times as long as the fastest. Norm and weighted sum of one layer
# are a small part of a step, but the memory that is kept adds up over all layers.
SLOWER_FOR_MEMORY = 1.5
# Every kernel is tried at least twice, and more often if a layer is small and times are close together.
MOST_TURNS, TRIAL_SECONDS = 8, 0.02

_FINE = 1e-5  # seconds: a coarser clock cannot tell kernels apart

_FAMILIES = ("ghost", "instantiate")


class _Trial(NamedTuple):
    seconds: float
    kept_bytes: int


class _Choice(NamedTuple):
    """A kernel, and the reason. final: every later batch of this kind would give the same choice."""

    kernel: str
    seconds: Mapping[str, float] | None = None
    final: bool = True
    kept: Mapping[str, int] | None = None


@dataclass
class KernelChooser:
    """Chooses a kernel for every parameter, once for all parameters whose layouts have the same signature.

    mode:
    "mixed": mixed ghost clipping (Bu, Mao, Xu 2022). The formula 2 T^2 <= p d decides outside of the bounds
    above. Between them the kernels are measured once. Of those that are fast, the one that keeps least is
    chosen; if all gradients of the batch together take little memory, the fastest.
    "ghost", "instantiate": the best kernel of that family for every parameter.

    fixed: parameter name -> kernel, or a family. The mode applies to all other parameters. With the `kernels`
    of another chooser, on a machine of the same kind, nothing is measured.

    measures: False to choose by the formula alone, so that several processes choose the same.

    ordered: whether passes are of batches in a secret order (`clipped_grad_sum`). How sums are added then
    follows from their shape, which is that of the first pass: let it be one of random numbers.
    """

    mode: Mode = "mixed"
    fixed: Mapping[str, str] = field(default_factory=dict)
    measures: bool = True
    ordered: bool = False
    _positions: dict[str, int] = field(default_factory=dict, init=False, repr=False)
    _measured: dict[tuple[object, ...], _Choice] = field(default_factory=dict, init=False, repr=False)
    _rows: dict[str, KernelRow] = field(default_factory=dict, init=False, repr=False)
    _final: dict[tuple[object, ...], KernelRow] = field(default_factory=dict, init=False, repr=False)

    def keep(self, name: str, layout: GradientLayout) -> Kept:
        """What the chosen kernel keeps of the parameter `name`. The choice is noted in `rows`.

        Raises ConfigError if the layout does not have the kernel that was fixed for the parameter, and
        ModelError if `ordered` and a pass has another shape than the first.
        """
        declared = self._positions.setdefault(name, layout.positions)
        if self.ordered and layout.positions != declared:
            raise ModelError(
                f"{name}: an example has {layout.positions} positions, and {declared} in passes of random "
                "numbers: records would decide the shape of a pass, and so how others are added. Let the "
                'model keep one shape, or ask for arithmetic = "proven".'
            )
        kind = (name, layout.signature, _is_little(layout))
        if row := self._final.get(kind):
            self._rows[name] = row
            return layout.keep(row.kernel)
        choice = self._choose(name, layout)
        kept = layout.keep(choice.kernel)
        self._rows[name] = row = self._row(name, layout, choice, kept)
        if choice.final:
            self._final[kind] = row
        return kept

    @property
    def rows(self) -> tuple[KernelRow, ...]:
        """The latest choice for every parameter that any batch has used so far."""
        return tuple(self._rows.values())

    @property
    def kernels(self) -> dict[str, str]:
        """Parameter name -> kernel; may be given to another chooser as `fixed`."""
        return {row.parameter: row.kernel for row in self.rows}

    def _row(self, name: str, layout: GradientLayout, choice: _Choice, kept: Kept) -> KernelRow:
        return KernelRow(
            parameter=name,
            layout=type(layout).__name__.lower(),
            T=layout.positions,
            p=layout.shape[:1].numel(),
            d=layout.shape[1:].numel(),
            kernel=choice.kernel,
            decided="measured" if choice.seconds else "fixed" if name in self.fixed else "formula",
            seconds=choice.seconds,
            kept_bytes=_kept_bytes(kept),
            kept=choice.kept,
        )

    def _choose(self, name: str, layout: GradientLayout) -> _Choice:
        candidates = self._candidates(name, layout)
        if len(candidates) == 1:
            return _Choice(candidates[0])
        if not self.measures:
            return _Choice(_by_formula(layout, candidates))
        key = (layout.signature, candidates, _is_little(layout))
        if key not in self._measured:
            if layout.num_examples < ENOUGH_EXAMPLES:
                return _Choice(_by_formula(layout, candidates), final=False)
            self._measured[key] = _by_trial(layout, candidates, ordered=self.ordered)
        return self._measured[key]

    def _candidates(self, name: str, layout: GradientLayout) -> tuple[str, ...]:
        if name in self.fixed:
            return _fixed_candidates(name, self.fixed[name], layout.kernels)
        ghost, instantiate = (_family(layout.kernels, family) for family in _FAMILIES)
        if not ghost or self.mode == "instantiate":
            return instantiate
        if self.mode == "ghost" or layout.ghost_ratio <= _clear_ghost(layout):
            return ghost
        return instantiate if layout.ghost_ratio >= CLEAR_INSTANTIATE else layout.kernels


def _fixed_candidates(name: str, asked: str, kernels: tuple[str, ...]) -> tuple[str, ...]:
    candidates = (asked,) if asked in kernels else _family(kernels, asked) if asked in _FAMILIES else ()
    if not candidates:
        raise ConfigError(
            f"{name} has no kernel {asked!r}; its kernels are {', '.join(kernels)}; "
            f"{' and '.join(map(repr, _FAMILIES))} each mean the best kernel whose name begins with it."
        )
    return candidates


def _is_little(layout: GradientLayout) -> bool:
    """Whether all gradients of the batch together are so small that memory does not matter."""
    return 4 * layout.num_examples * math.prod(layout.shape) <= LITTLE_BYTES


def _clear_ghost(layout: GradientLayout) -> float:
    """The bound below which a ghost kernel is chosen without measuring.

    With one position a ghost norm takes only two lengths of rows: then the larger bound always applies.
    """
    return CLEAR_GHOST_OF_LITTLE if layout.positions > 1 and _is_little(layout) else CLEAR_GHOST


def _family(kernels: tuple[str, ...], family: str) -> tuple[str, ...]:
    return tuple(kernel for kernel in kernels if is_ghost(kernel) == (family == "ghost"))


def _by_formula(layout: GradientLayout, candidates: tuple[str, ...]) -> str:
    family = _family(candidates, "ghost" if layout.ghost_ratio <= 1 else "instantiate")
    return (family or candidates)[-1]


def _by_trial(layout: GradientLayout, candidates: tuple[str, ...], *, ordered: bool) -> _Choice:
    """Of the kernels nearly as fast as the fastest, the one that keeps least; of equals the faster.

    If all gradients together take little memory, the fastest.
    """
    little = _is_little(layout)
    # The losing kernels may need much memory: they are tried on part of the batch.
    few = layout if little else layout.first(max(ENOUGH_EXAMPLES, layout.num_examples // 4))
    trials = _trials(few, candidates, ordered=ordered)
    seconds = {kernel: trial.seconds for kernel, trial in trials.items()}
    kept = {kernel: trial.kept_bytes for kernel, trial in trials.items()}
    limit = (1.0 if little else SLOWER_FOR_MEMORY) * min(seconds.values())
    fast = [kernel for kernel in candidates if seconds[kernel] <= limit]
    kernel = min(fast, key=lambda kernel: (kept[kernel], seconds[kernel]))
    return _Choice(kernel, seconds, kept=None if little else kept)


def _trials(layout: GradientLayout, kernels: tuple[str, ...], *, ordered: bool) -> dict[str, _Trial]:
    """For each kernel the shortest of several runs: the first may load code, other work may slow down any.

    The kernels take turns. A kernel that has just run finds its code and data in the cache; within a step it
    would not.
    """
    clock = clock_for(layout.device)
    trials = {kernel: _trial(layout, kernel, ordered=ordered) for kernel in kernels}
    until = clock() + TRIAL_SECONDS
    for turn in range(MOST_TURNS - 1):
        if turn > 0 and clock() > until:
            break
        for kernel in kernels:
            again = _trial(layout, kernel, ordered=ordered)
            trials[kernel] = min(trials[kernel], again, key=lambda trial: trial.seconds)
    return trials


def _trial(layout: GradientLayout, kernel: str, *, ordered: bool) -> _Trial:
    """Time of norm and weighted sum together."""
    clock, device = clock_for(layout.device), layout.device
    start = clock()
    kept = layout.keep(kernel)
    with full_precision(device):
        adding = additions(kept.positions, math.prod(layout.shape), MOST_IN_FLOAT32, ordered=ordered)
        kept.weighted_sum(torch.ones_like(kept.norm_squared), adding)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return _Trial(clock() - start, _kept_bytes(kept))


def _kept_bytes(kept: Kept) -> int:
    """Bytes kept for one example. A view counts its own numbers, not its base, which may be a data set."""
    return sum(part.numel() * part.element_size() for part in kept.parts) // len(kept.norm_squared)


def clock_for(device: torch.device) -> Callable[[], float]:
    """A clock in seconds, of which only differences mean anything.

    If one thread computes, it is that thread's CPU time. A wall clock would also count the time of other
    processes on that core, many times that of a kernel, and they would decide the choice; simulated clients
    share their cores. With several threads, or on a GPU, it is the wall clock.
    """
    alone = device.type == "cpu" and torch.get_num_threads() == 1
    fine = time.get_clock_info("thread_time").resolution <= _FINE
    return time.thread_time if alone and fine else time.perf_counter
