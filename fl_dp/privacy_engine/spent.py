"""What an engine says about privacy: epsilon, always with what it assumes."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from fl_dp.accounting.epsilon import in_digits
from fl_dp.errors import AssumedSamplingWarning
from fl_dp.records import STEADY_ROWS, assuming


@dataclass(frozen=True, slots=True)
class Assumed:
    """Something that epsilon relies on without a check, or that a reader must know.

    name: a word for programs. told: the assumption. instead: how to do without it.
    """

    name: str
    told: str
    instead: str

    def __str__(self) -> str:
        return f"{self.told} ({self.instead})"


@dataclass(frozen=True, slots=True, repr=False)
class PrivacySpent:
    """The cost of a number of steps; epsilon is infinite for steps without noise.

    wrong: what makes the number misleading, printed before it. assumed: what epsilon relies on without a
    check; empty if every step was checked. account: in words, what the paying account has spent; else empty.
    planned: the steps that the noise was chosen for, if fewer were taken: an end that results have decided
    costs as much as the plan (docs/privacy.md, servers that adapt).
    """

    wrong: tuple[str, ...]
    epsilon: float
    delta: float
    steps: int
    assumed: tuple[Assumed, ...]
    account: str = ""
    planned: int | None = None

    @property
    def sampling(self) -> Literal["seen", "assumed"]:
        """Whether every step was seen to be one draw of a `PoissonSampler`."""
        return "assumed" if any(one.name == DRAWS for one in self.assumed) else "seen"

    def __str__(self) -> str:
        others = f"; {self.account}" if self.account else ": other trainings on these records add up"
        told = (
            f"epsilon {in_digits(self.epsilon, 6)} at delta {self.delta:g} after {self.steps} steps, "
            f"{assuming(STEADY_ROWS)}, of this engine alone{others}"
        )
        parts = [*self.wrong, told]
        if self.assumed:
            parts.append(f"ASSUMED, not checked: {'; '.join(map(str, self.assumed))}")
        elif self.steps:
            parts.append("All that can be seen was checked: Poisson draws, each example's own loss, noise")
        if self.planned is not None:
            parts.append(
                f"If results decide where it ends, quote the epsilon of all {self.planned} planned steps"
            )
        return f"{'. '.join(parts)}."

    def __repr__(self) -> str:
        return f"<PrivacySpent: {self}>"


DRAWS, LOSSES, NOISE_SOURCE, DRAW_SOURCE = "draws", "losses", "noise generator", "draw generator"
OTHERS, PLAIN = "other engines", "other optimizers"
BACK, CONTINUED = "steps taken back", "continued"
PUBLIC, EVALUATION, RANKS = "public weights", "evaluation mode", "records of ranks"
BUFFERS, OPTIMIZER, SHOWN = "buffers", "optimizer state", "shown losses"
ACCOUNT = "records of the account"

# name -> what was not seen, with {} for the number of steps, and what to do.
_TOLD: Mapping[str, tuple[str, str]] = {
    DRAWS: (
        "each batch is a Poisson draw of rate batch_size / sample_size, in {}",
        "to have it checked: attach(optimizer, sampler=PoissonSampler(...)) before the first step",
    ),
    LOSSES: (
        "each loss is of its own example alone, in {}",
        "to have it checked: PrivacyEngine(losses_of=...), and engine.loss(...) or engine.losses(...)",
    ),
    NOISE_SOURCE: (
        "nobody knows the generator that made the noise of {}",
        "leave out PrivacyEngine(generator=...)",
    ),
    DRAW_SOURCE: (
        "nobody knows the generator that made the draws of {}",
        "leave out PoissonSampler(generator=...)",
    ),
    RANKS: (
        "all ranks hold the same records in the same order, in {}",
        "to have it checked: a DataLoader, and augmentations inside the model",
    ),
    ACCOUNT: (
        "that these are the account's records, in {}",
        "to have it checked: Ledger.account(records=DATASET) of tensors, without files=",
    ),
    BUFFERS: (
        "what was written to buffers between the passes came from no record",
        "a forward pass, and code between passes, must not write batch statistics",
    ),
    OPTIMIZER: (
        "the state that the optimizer had at attach() is of no gradient without noise",
        "to continue from a saved state: engine.load_state_dict first, then attach(); else "
        "optimizer.state.clear(), or a new optimizer, before attach()",
    ),
    SHOWN: (
        "nobody but the data's owner reads the losses of {}, which are raw data",
        "leave out PrivacyEngine(show_loss=True)",
    ),
    EVALUATION: (
        "training mode leaves nothing behind: two equal calls in it differ",
        "draw random numbers from torch alone",
    ),
    OTHERS: (
        "{} of these are of other engines over the same weights or records",
        "PrivacyEngine(public_weights=True) if their records were public",
    ),
    PLAIN: (
        "{} of an optimizer without an engine, or of an engine without noise, have no protection",
        "PrivacyEngine(public_weights=True), made after them, if their records were public",
    ),
    PUBLIC: (
        "the first weights are public: {} of earlier engines over them are not counted",
        "leave out PrivacyEngine(public_weights=True)",
    ),
    BACK: (
        "{} that an earlier state took back count, as their results were seen",
        "a new run on the same weights saves nothing",
    ),
    CONTINUED: (
        "no step was taken after the loaded state was saved",
        "if there were some, get_privacy_spent(steps=...) with theirs",
    ),
}


def assumed(names: Mapping[str, int]) -> tuple[Assumed, ...]:
    """The assumptions of these names, each with its number of steps."""
    return tuple(
        Assumed(name, told.format(_steps(names[name])), instead)
        for name, (told, instead) in _TOLD.items()
        if name in names
    )


def _steps(number: int) -> str:
    return "1 step" if number == 1 else f"{number} steps"


def warn_of_assumed_sampling() -> None:
    """Warn, at the place that called the engine's method."""
    warnings.warn(
        "This epsilon assumes that every batch was a Poisson draw, which was not checked. Draw batches "
        "with PoissonSampler, and pass it to attach(optimizer, sampler=sampler) before the first step.",
        AssumedSamplingWarning,
        stacklevel=3,
    )
