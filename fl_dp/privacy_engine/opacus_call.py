"""Opacus' call for ghost clipping: model, optimizer, criterion and loader in, the same four out.

output = model(x)
loss = criterion(output, y)
loss.backward()
optimizer.step()
"""

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from fl_dp.engine.bounds import Bounds
from fl_dp.engine.tracing.mixing import MixingWatch
from fl_dp.engine.tracing.structure import map_tensors
from fl_dp.errors import ConfigError
from fl_dp.privacy_engine.draw_loader import DrawLoader, check_loader
from fl_dp.privacy_engine.engine import PrivacyEngine
from fl_dp.privacy_engine.turn_loop import TurnLoop

# Keyword of Opacus -> the only value accepted, as it asks for what happens anyway; what to do instead.
_SAME: dict[str, tuple[Any, str]] = {
    "batch_first": (True, "the first dimension is always the example: transpose inside the model"),
    "loss_reduction": (
        "mean",
        "gradients are divided by the mean batch size: divide the learning rate by it",
    ),
    "poisson_sampling": (True, "epsilon is that of Poisson draws, which the returned loader makes"),
    "clipping": (
        "flat",
        "for clipping per layer max_grad_norm={'0.weight': bound, ...}; for an adaptive bound "
        "PrivacyEngine(clipping='automatic') (docs/clipping.md)",
    ),
    "grad_sample_mode": (
        "ghost",
        "kernels are measured and chosen, and four objects are returned, as for 'ghost'",
    ),
    "wrap_model": (False, "the model is returned as it is, without _module"),
    "rand_on_empty": (False, "an empty draw is a batch of no rows"),
}


def make_private(
    *,
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    data_loader: DataLoader[Any],
    max_grad_norm: Bounds,
    criterion: nn.Module | None = None,
    physical_batch_size: int | None = None,
    **options: Any,
) -> tuple[nn.Module, torch.optim.Optimizer, "PrivateCriterion", DrawLoader]:
    """Make an ordinary loop private, by the call that Opacus has for ghost clipping.

    Args:
        module: The model; returned as it is.
        optimizer: An optimizer of its parameters. The same object is returned: its `get_privacy_spent()`
            gives epsilon, and its `privacy_engine` is the engine.
        data_loader: Its batch size is the mean size of a draw; see `PrivacyEngine.attach`.
        max_grad_norm: The clipping bound.
        criterion: A loss of torch.nn with reduction="mean" or "none"; None for cross-entropy.
        physical_batch_size: The most records that the model may be called with. A larger draw is refused,
            because the loop's own call cannot be cut; `PrivacyEngine.loss` cuts. None for no limit.
        options: `noise_multiplier`, and all that `PrivacyEngine` takes, such as `target_delta`. Keywords of
            Opacus are accepted if they ask for what happens anyway.

    Returns:
        Model, optimizer, criterion, loader. The criterion makes a loss whose `backward()` gives no weight a
        gradient without noise, and whose value is NaN unless `show_loss=True`. To evaluate, use the criterion
        that was given.

    Raises:
        ConfigError: A keyword that cannot be honoured, by name, or what `PrivacyEngine` and `attach` refuse.

    Example:
        >>> import fl_dp, torch
        >>> from torch.utils.data import DataLoader, TensorDataset
        >>> model = torch.nn.Linear(4, 2)
        >>> model, optimizer, criterion, loader = fl_dp.make_private(
        ...     module=model,
        ...     optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        ...     criterion=torch.nn.CrossEntropyLoss(),
        ...     data_loader=DataLoader(TensorDataset(torch.randn(100, 4), torch.randint(2, (100,))), 20),
        ...     noise_multiplier=1.0,
        ...     max_grad_norm=1.0,
        ... )
        >>> for x, y in loader:
        ...     optimizer.zero_grad()
        ...     loss = criterion(model(x), y)
        ...     loss.backward()
        ...     optimizer.step()
        >>> optimizer.get_privacy_spent().steps
        5
    """
    for name, (same, instead) in _SAME.items():
        if name in options and (value := options.pop(name)) != same:
            raise ConfigError(f"make_private({name}={value!r}) cannot be honoured: {instead}.")
    if "losses_of" in options:
        raise ConfigError("make_private: the criterion makes the losses; losses_of= is PrivacyEngine's.")
    check_loader(data_loader)
    each = each_loss(nn.CrossEntropyLoss() if criterion is None else criterion)
    engine = PrivacyEngine(
        module,
        batch_size=data_loader.batch_size or 1,
        sample_size=len(data_loader.dataset),  # type: ignore[arg-type]
        max_grad_norm=max_grad_norm,
        **options,
    )
    loader = engine.attach(optimizer, loader=data_loader)
    assert engine._turns is not None
    every = options.get("check_every", 20)
    return module, optimizer, PrivateCriterion(each, engine._turns, physical_batch_size, every), loader


def make_private_with_epsilon(
    *, target_epsilon: float, target_delta: float, epochs: float, **others: Any
) -> tuple[nn.Module, torch.optim.Optimizer, "PrivateCriterion", DrawLoader]:
    """`make_private` with the noise for which `epochs` cost `target_epsilon`.

    Args:
        target_epsilon: What `epochs` may cost.
        target_delta: Delta of that epsilon.
        epochs: Loops over the loader.
        others: As for `make_private`, without `noise_multiplier`.

    Returns:
        Model, optimizer, criterion, loader.

    Raises:
        ConfigError: As `make_private`.

    Example:
        >>> import fl_dp, torch
        >>> from torch.utils.data import DataLoader, TensorDataset
        >>> model = torch.nn.Linear(4, 2)
        >>> model, optimizer, criterion, loader = fl_dp.make_private_with_epsilon(
        ...     module=model,
        ...     optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        ...     data_loader=DataLoader(TensorDataset(torch.randn(100, 4), torch.randint(2, (100,))), 20),
        ...     target_epsilon=3.0,
        ...     target_delta=1e-5,
        ...     epochs=2,
        ...     max_grad_norm=1.0,
        ... )
        >>> optimizer.get_privacy_spent(steps=2 * len(loader)).epsilon <= 3.0
        True
    """
    return make_private(target_epsilon=target_epsilon, target_delta=target_delta, epochs=epochs, **others)


class PrivateCriterion(nn.Module):
    """The criterion of a private loop: a scalar whose `backward()` commits the clipped sum of a draw.

    each: gives each record's loss, which `MixingWatch` checks on one batch in `every`. most: the most records
    of a draw.
    """

    def __init__(self, each: nn.Module, turns: TurnLoop, most: int | None, every: int) -> None:
        super().__init__()
        self.each, self._turns, self._most = each, turns, most
        self._watch = MixingWatch(self._losses, every)

    def forward(self, *batch: Any, **named: Any) -> Tensor:
        """The loss of one draw's outputs and targets. If a record has several losses, their mean counts."""
        self._watch.look(*map_tensors(Tensor.detach, (batch, named)))
        losses = self._losses(batch, named)
        if not losses.requires_grad:
            raise ConfigError(
                "The criterion that make_private returned is for training: to evaluate, use the one that "
                "was given to it."
            )
        return self._turns.scalar_of(losses, batch, named, most=self._most)

    def _losses(self, batch: tuple[Any, ...], named: dict[str, Any]) -> Tensor:
        losses: Tensor = self.each(*batch, **named)
        return losses.flatten(1).mean(1) if losses.dim() > 1 else losses


def each_loss(criterion: nn.Module) -> nn.Module:
    """A copy of the criterion that gives each record's loss; ConfigError if it cannot."""
    if getattr(criterion, "reduction", None) not in ("mean", "none"):
        raise ConfigError(
            f"make_private: {type(criterion).__name__} has no reduction='mean', so each record's own "
            "loss is unknown. Use a loss of torch.nn, or PrivacyEngine(losses_of=...) and engine.loss(x, y)."
        )
    each = copy.copy(criterion)
    each.reduction = "none"  # type: ignore[assignment]
    return each
