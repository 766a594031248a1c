"""Which kernel each layer uses: by formula where it is clear, by measurement on this machine where not."""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import torch

from fl_dp.engine.gradients.layouts import Form, Kept
from fl_dp.engine.kernel_choice.table import PlanRow, is_ghost, plan_table
from fl_dp.engine.precision import full_precision
from fl_dp.errors import ConfigError

Mode = Literal["mixed", "ghost", "instantiate"]

# Fewer examples tell too little about time; until there are more, the formula decides.
ENOUGH_EXAMPLES = 8
# Outside these bounds of 2 T^2 / (p d) memory decides, whatever the time: the loser is not even tried.
CLEAR_GHOST, CLEAR_INSTANTIATE = 1 / 4, 8.0
# Unless so few bytes hold all gradients of the layer (a core's second-level cache): then time decides, and
# only below this bound a ghost norm is sure to take less of it.
LITTLE_BYTES, CLEAR_GHOST_OF_LITTLE = 2**21, 1 / 32
# A kernel may take so many times as long as the fastest if it keeps less: norm and weighted sum of one
# layer are a small part of a step, but what is kept adds up over all layers.
SLOWER_FOR_MEMORY = 1.5
# Two turns at least, and more of a small layer, whose times are close to one another.
MOST_TURNS, TRIAL_SECONDS = 8, 0.02

_FAMILIES = ("ghost", "instantiate")


@dataclass(frozen=True, slots=True)
class _Trial:
    seconds: float
    kept_bytes: int


@dataclass(frozen=True, slots=True)
class _Choice:
    """final: it would be the same in every later batch of this kind."""

    kernel: str
    seconds: Mapping[str, float] | None = None
    final: bool = True


@dataclass
class Planner:
    """Chooses a kernel for every parameter, once for all whose forms have the same signature.

    mixed: mixed ghost clipping (Bu, Mao, Xu 2022): the rule 2 T^2 <= p d, and between the bounds
    above the kernel that keeps least of those that are fast, measured once; the fastest, where all
    gradients of the batch together take little. ghost, instantiate:
    the best of that family for every parameter.
    fixed: parameter name -> kernel, or a family; the mode is for the others. `kernels` of another
    planner, on a machine of the same kind, are all fixed, and nothing is measured.
    """

    mode: Mode = "mixed"
    fixed: Mapping[str, str] = field(default_factory=dict)
    _measured: dict[tuple[object, ...], _Choice] = field(default_factory=dict, init=False, repr=False)
    _rows: dict[str, PlanRow] = field(default_factory=dict, init=False, repr=False)
    _final: dict[tuple[object, ...], PlanRow] = field(default_factory=dict, init=False, repr=False)

    def keep(self, name: str, form: Form) -> Kept:
        """What the chosen kernel keeps of the parameter `name`; what was chosen is entered in the plan.

        Raises ConfigError when the kernel that was fixed for it is not one of the form's.
        """
        kind = (name, form.signature, _is_little(form))
        if row := self._final.get(kind):
            self._rows[name] = row
            return form.keep(row.kernel)
        choice = self._choose(name, form)
        kept = form.keep(choice.kernel)
        self._rows[name] = row = self._row(name, form, choice, kept)
        if choice.final:
            self._final[kind] = row
        return kept

    @property
    def rows(self) -> tuple[PlanRow, ...]:
        """What was chosen in the latest batch, for the parameters that any batch has used so far."""
        return tuple(self._rows.values())

    @property
    def kernels(self) -> dict[str, str]:
        """Parameter -> kernel, as `fixed` of another planner."""
        return {row.parameter: row.kernel for row in self.rows}

    def table(self) -> str:
        """The plan as aligned plain text, parameters in the order of the backward pass."""
        return plan_table(self.rows)

    def _row(self, name: str, form: Form, choice: _Choice, kept: Kept) -> PlanRow:
        return PlanRow(
            parameter=name,
            form=type(form).__name__.lower(),
            T=form.positions,
            p=form.shape[:1].numel(),
            d=form.shape[1:].numel(),
            kernel=choice.kernel,
            decided="measured" if choice.seconds else "fixed" if name in self.fixed else "formula",
            seconds=choice.seconds,
            kept_bytes=_kept_bytes(kept),
        )

    def _choose(self, name: str, form: Form) -> _Choice:
        candidates = self._candidates(name, form)
        if len(candidates) == 1:
            return _Choice(candidates[0])
        key = (form.signature, candidates, _is_little(form))
        if key not in self._measured:
            if form.num_examples < ENOUGH_EXAMPLES:
                return _Choice(_by_formula(form, candidates), final=False)
            self._measured[key] = _by_trial(form, candidates)
        return self._measured[key]

    def _candidates(self, name: str, form: Form) -> tuple[str, ...]:
        if name in self.fixed:
            return _fixed_candidates(name, self.fixed[name], form.kernels)
        ghost, instantiate = (_family(form.kernels, family) for family in _FAMILIES)
        if not ghost or self.mode == "instantiate":
            return instantiate
        if self.mode == "ghost" or form.ghost_ratio <= _clear_ghost(form):
            return ghost
        return instantiate if form.ghost_ratio >= CLEAR_INSTANTIATE else form.kernels


def _fixed_candidates(name: str, asked: str, kernels: tuple[str, ...]) -> tuple[str, ...]:
    candidates = (asked,) if asked in kernels else _family(kernels, asked) if asked in _FAMILIES else ()
    if not candidates:
        raise ConfigError(
            f"{name} has no kernel {asked!r}; its kernels are {', '.join(kernels)}, and "
            f"{' and '.join(map(repr, _FAMILIES))} stand for the best of those that begin so."
        )
    return candidates


def _is_little(form: Form) -> bool:
    """Whether all gradients of the batch are so small that memory does not matter."""
    return 4 * form.num_examples * math.prod(form.shape) <= LITTLE_BYTES


def _clear_ghost(form: Form) -> float:
    """Of one position a ghost norm takes the time of two row lengths: there is nothing to measure."""
    return CLEAR_GHOST_OF_LITTLE if form.positions > 1 and _is_little(form) else CLEAR_GHOST


def _family(kernels: tuple[str, ...], family: str) -> tuple[str, ...]:
    return tuple(kernel for kernel in kernels if is_ghost(kernel) == (family == "ghost"))


def _by_formula(form: Form, candidates: tuple[str, ...]) -> str:
    family = _family(candidates, "ghost" if form.ghost_ratio <= 1 else "instantiate")
    return (family or candidates)[-1]


def _by_trial(form: Form, candidates: tuple[str, ...]) -> _Choice:
    """The least kept by those that are nearly as fast as the fastest; of equals the faster.

    Where even all gradients take little, the fastest.
    """
    little = _is_little(form)
    few = form if little else form.first(max(ENOUGH_EXAMPLES, form.num_examples // 4))  # losers need memory
    trials = _trials(few, candidates)
    slower = 1.0 if little else SLOWER_FOR_MEMORY
    limit = slower * min(trial.seconds for trial in trials.values())
    fast = [kernel for kernel in candidates if trials[kernel].seconds <= limit]
    kernel = min(fast, key=lambda kernel: (trials[kernel].kept_bytes, trials[kernel].seconds))
    return _Choice(kernel, {kernel: trial.seconds for kernel, trial in trials.items()})


def _trials(form: Form, kernels: tuple[str, ...]) -> dict[str, _Trial]:
    """For each kernel the least of some runs: the first may load code, any may be held up by other work.

    In turns: a kernel that ran just before has its code and data at hand, which it has not within a step.
    """
    trials = {kernel: _trial(form, kernel) for kernel in kernels}
    until = time.perf_counter() + TRIAL_SECONDS
    for turn in range(MOST_TURNS - 1):
        if turn > 0 and time.perf_counter() > until:
            break
        for kernel in kernels:
            trials[kernel] = min(trials[kernel], _trial(form, kernel), key=lambda trial: trial.seconds)
    return trials


def _trial(form: Form, kernel: str) -> _Trial:
    """Time of norm and weighted sum together."""
    start = time.perf_counter()
    kept = form.keep(kernel)
    with full_precision(kept.norm_squared.device):
        kept.weighted_sum(torch.ones_like(kept.norm_squared), None)
    if kept.norm_squared.is_cuda:
        torch.cuda.synchronize()
    return _Trial(time.perf_counter() - start, _kept_bytes(kept))


def _kept_bytes(kept: Kept) -> int:
    """Bytes of one example, without what its tensors are views of: that may be a whole data set."""
    return sum(part.numel() * part.element_size() for part in kept.parts) // len(kept.norm_squared)
