"""One step of DP-SGD (Abadi et al. 2016), as functions of values.

    drawn = draw(...)             each example enters by chance, by itself; their order is random and secret
    clipped = clipped_sum(drawn)  of all passes: an example more or less moves it by C at most
    noisy = noised(...)           the only result of data that is used further
    descend(noisy)                post-processing

A client of a federation takes its steps by `take_step`. In a user's own loop a sampler draws and the user's
code computes the losses: there `PrivacyEngine` calls the same functions one by one.

The caller's `clipped_sum` decides where passes run, how many rows they have, by which kernels, and what
happens if one fails.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fl_dp.engine.bounds import Bounds
from fl_dp.engine.clip_functions import ClipFunction
from fl_dp.engine.clipping import ClippedSum, empty_sum, sum_of
from fl_dp.engine.gradients.kept import Kept
from fl_dp.engine.gradients.lengths import wide_type
from fl_dp.engine.noise.gaussian import NoiseSource, add_gaussian_noise, share_of_sum
from fl_dp.engine.noise.randomness import Randomness
from fl_dp.engine.sampling import in_random_order, poisson_draw
from fl_dp.engine.sum_error import most_drawn
from fl_dp.records import MOST_WEIGHT

Noisy = Mapping[str, Tensor]  # parameter -> noisy sum of its gradients


@dataclass(frozen=True, slots=True)
class DpSgd:
    """What all steps have in common; public.

    parameters: those that are trained, by name. max_grad_norm, clipping: as in `clipped_grad_sum`.
    noise_multiplier: sigma over the sensitivity. batch_size: expected examples of a draw.
    shares: 0 if a step adds the whole noise. Otherwise the noise consists of so many equal shares: a step
    adds one, and gives integers (`share_of_sum`). ordered: whether passes are of `draw`, in its order.
    """

    parameters: Mapping[str, Tensor]
    max_grad_norm: Bounds
    clipping: ClipFunction | str
    noise_multiplier: float
    batch_size: int
    shares: int = 0
    ordered: bool = False

    @property
    def most(self) -> int:
        """The most examples of a draw. How far rounding moves a sum depends on this number."""
        return most_drawn(self.batch_size)

    @property
    def kind(self) -> tuple[object, ...]:
        """What decides how the sums of a pass are computed."""
        return str(self.max_grad_norm), self.clipping, self.most, self.ordered


def take_step(
    rule: DpSgd,
    source: Randomness,
    num_examples: int,
    sample_rate: float,
    clipped_sum: Callable[[Tensor], ClippedSum],
    descend: Callable[[Noisy], None],
) -> None:
    """One step. An empty draw is one, too: its sum is zero, but its noise is not.

    source: of this step alone. clipped_sum: of the examples with these numbers; nothing in them raises.
    """
    drawn = draw(rule, source, num_examples, sample_rate)
    clipped = clipped_sum(drawn)
    noisy = noised(rule, clipped, source)
    descend(noisy)


def draw(rule: DpSgd, source: Randomness, num_examples: int, sample_rate: float) -> Tensor:
    """A Poisson draw, as numbers of examples in a uniformly random order of this step's own, for which sums
    may be added in float32 (docs/rounding.md). A larger one than `most`, of probability 2^-111, is cut.
    """
    drawn = poisson_draw(num_examples, sample_rate, source.child("draw"))[: rule.most]
    return in_random_order(drawn, source.child("order"))


def clipped_pass(
    rule: DpSgd,
    losses: Tensor,
    kept: dict[str, Kept],
    *,
    ignored: Tensor | None = None,
    all_finite: bool = False,
    copy: Mapping[str, Tensor] | None = None,
) -> ClippedSum:
    """The clipped sum of one pass, from its losses (N,) and what it kept of the gradients.

    ignored, all_finite: as in `sum_of`. copy: the parameters of a copy of the model that ran.
    """
    return sum_of(
        losses,
        kept,
        rule.parameters if copy is None else copy,
        max_grad_norm=rule.max_grad_norm,
        clipping=rule.clipping,
        most=rule.most,
        ordered=rule.ordered,
        ignored=ignored,
        all_finite=all_finite,
    )


def nothing(rule: DpSgd) -> ClippedSum:
    """The clipped sum of no examples."""
    return empty_sum(rule.parameters, rule.max_grad_norm, rule.clipping, most=rule.most, ordered=rule.ordered)


def added_up(rule: DpSgd, passes: Iterable[ClippedSum]) -> ClippedSum:
    """The clipped sum of a draw, from those of its passes, in their order."""
    total = None
    for clipped in passes:
        total = clipped if total is None else total + clipped
    return total or nothing(rule)


def noised(rule: DpSgd, clipped: ClippedSum, source: NoiseSource) -> Noisy:
    """The sum with its noise, added once. source: as in `add_gaussian_noise`; for a share, a Randomness."""
    noise = rule.noise_multiplier
    if not rule.shares:
        return add_gaussian_noise(clipped, noise_multiplier=noise, generator=source)
    assert isinstance(source, Randomness)
    return share_of_sum(clipped, noise_multiplier=noise, shares=rule.shares, generator=source)[0]


@torch.no_grad()
def descend(
    rule: DpSgd,
    noisy: Noisy,
    corrected: Callable[[Sequence[Tensor], float], Sequence[Tensor | None]],
    move: Callable[[Sequence[Tensor | None]], None],
) -> None:
    """Move the parameters along the noisy sums, and keep them finite, whatever the learning rate.

    corrected: corrects the sums for a local algorithm. move: takes a step of an optimizer.
    """
    # a sum of several passes has more digits than a parameter can use
    sums = [noisy[name].to(wide_type(one.dtype)) for name, one in rule.parameters.items()]
    move(corrected(sums, rule.batch_size))
    for parameter in rule.parameters.values():
        real = torch.view_as_real(parameter) if parameter.is_complex() else parameter
        most = min(MOST_WEIGHT, torch.finfo(real.dtype).max)
        real.nan_to_num_(0.0).clamp_(-most, most)


def set_gradients(rule: DpSgd, noisy: Noisy, zeros: Mapping[str, int]) -> None:
    """Let each parameter's gradient be the noisy mean, for an optimizer of torch.optim to descend along.

    zeros: rows of parameters that stay zero, as PyTorch leaves a table's padding.
    """
    for name, parameter in rule.parameters.items():
        parameter.grad = noisy[name].div_(rule.batch_size).to(parameter.dtype)
        if name in zeros:
            parameter.grad[zeros[name]] = 0.0
