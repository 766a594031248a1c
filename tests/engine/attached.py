"""A small model, a batch, and an engine attached to the model's optimizer."""

import warnings
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fl_dp import PrivacyEngine


def small_model() -> nn.Sequential:
    """The same in every call."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))


def small_batch(n: int = 12) -> tuple[Tensor, Tensor]:
    """Inputs (n, 6) and labels (n,), the same in every call."""
    generator = torch.Generator().manual_seed(1)
    return torch.randn(n, 6, generator=generator), torch.randint(0, 3, (n,), generator=generator)


def losses_of(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(model(x), y, reduction="none")


def small_engine(model: nn.Module, **options: Any) -> PrivacyEngine:
    return PrivacyEngine(model, **{"batch_size": 10, "sample_size": 1000, "max_grad_norm": 0.1, **options})


def without_noise(model: nn.Module, **options: Any) -> PrivacyEngine:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return small_engine(model, noise_multiplier=0, **options)


def attached(
    model: nn.Module | None = None,
    optimizer_class: type[torch.optim.Optimizer] = torch.optim.SGD,
    lr: float = 0.1,
    **options: Any,
) -> tuple[Any, Any, PrivacyEngine]:
    """Model, optimizer and engine."""
    model = small_model() if model is None else model
    optimizer = optimizer_class(model.parameters(), lr=lr)  # type: ignore[call-arg]
    private = small_engine(model, **{"noise_multiplier": 1.0, **options})
    private.attach(optimizer)
    return model, optimizer, private
