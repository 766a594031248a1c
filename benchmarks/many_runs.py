"""DP-SGD with many settings at once: the runs of a grid on one table, which single runs would take hours for.

Linear models and `mlp`, whose gradients have a closed form: a layer's is the outer product of its input
and what comes back to its output (Goodfellow 2015, arXiv 1510.01799). tests/benchmarks holds it against the
engine.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

Weights = list[Tensor]  # of each layer (S, inputs + 1, outputs), the last row its bias; S settings


@dataclass(frozen=True)
class Runs:
    """bounds, rates: (S,) of each setting; bounds are infinite without privacy. The rest is common to all."""

    bounds: Tensor
    rates: Tensor
    batch: int
    steps: int
    momentum: float
    noise_multiplier: float


def weights_of(layers: Sequence[torch.nn.Linear], settings: int) -> Weights:
    """Copies of the layers' weights, once for each setting."""
    joined = (torch.cat([one.weight.detach().T, one.bias.detach()[None]]) for one in layers)
    return [one.expand(settings, -1, -1).clone() for one in joined]


def clipped_sums(weights: Weights, x: Tensor, y: Tensor, bounds: Tensor) -> Weights:
    """The sums of clipped gradients of cross-entropy, in the shapes of the weights. x: (n, d); y: (n,)."""
    inputs = _inputs(weights, x)
    logits = inputs[-1] @ weights[-1]
    back = [logits.softmax(-1) - one_hot(y, logits.shape[-1])]
    for layer in range(len(weights) - 1, 0, -1):
        of_tanh = 1 - inputs[layer][..., :-1] ** 2
        back.insert(0, back[0] @ weights[layer][:, :-1].transpose(1, 2) * of_tanh)
    squares = sum((a**2).sum(-1) * (g**2).sum(-1) for a, g in zip(inputs, back, strict=True))
    factors = (bounds[:, None] / squares.sqrt().clamp_min(1e-12)).clamp_max(1.0)[..., None]
    return [a.transpose(-1, -2) @ (g * factors) for a, g in zip(inputs, back, strict=True)]


def _inputs(weights: Weights, x: Tensor) -> list[Tensor]:
    """Of each layer, with a one behind each for the bias."""
    found = [_with_one(x)]
    for layer in weights[:-1]:
        found.append(_with_one(torch.tanh(found[-1] @ layer)))
    return found


def _with_one(x: Tensor) -> Tensor:
    return torch.cat([x, torch.ones(*x.shape[:-1], 1)], -1)


def train(weights: Weights, x: Tensor, y: Tensor, runs: Runs, seed: int) -> None:
    """Change the weights by all steps. All settings have the same draws, and each its own noise."""
    generator = torch.Generator().manual_seed(seed)
    velocities = [torch.zeros_like(one) for one in weights]
    for _ in range(runs.steps):
        drawn = torch.rand(len(x), generator=generator) < runs.batch / len(x)
        sums = clipped_sums(weights, x[drawn], y[drawn], runs.bounds)
        for weight, velocity, total in zip(weights, velocities, sums, strict=True):
            if runs.noise_multiplier:
                noise = torch.randn(total.shape, generator=generator)
                total = total + runs.noise_multiplier * runs.bounds.view(-1, 1, 1) * noise
            velocity.mul_(runs.momentum).add_(total / runs.batch)
            weight.sub_(runs.rates.view(-1, 1, 1) * velocity)


def scores(weights: Weights, x: Tensor, y: Tensor) -> dict[str, list[float]]:
    """Log loss, Brier score and accuracy of each setting."""
    logs = (_inputs(weights, x)[-1] @ weights[-1]).double().log_softmax(-1)
    right = one_hot(y, logs.shape[-1])
    found = {
        "log loss": -(logs * right).sum(-1),
        "brier": (logs.exp() - right).square().sum(-1),
        "accuracy": (logs.argmax(-1) == y).double(),
    }
    return {name: _finite(values.mean(-1)) for name, values in found.items()}


def _finite(values: Tensor) -> list[float]:
    return [value if math.isfinite(value) else 1e9 for value in values.tolist()]
