"""The loop that everybody writes: loss = engine.loss(*batch), loss.backward(), optimizer.step().

`loss` clips and adds up at once, pass by pass, so no graph of the model outlives it. It returns a scalar
whose backward() only confirms the sum; the next step takes it. No parameter has a gradient without noise at
any time.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from fl_dp.engine.clipping import ClippedSum
from fl_dp.engine.tracing.structure import tensors
from fl_dp.errors import ConfigError
from fl_dp.privacy_engine.batch_rows import num_rows, rows_of
from fl_dp.privacy_engine.draw_loader import DrawLoader, secret_masks
from fl_dp.training.step import DpSgd, added_up, nothing

_RAW = (
    "What it holds was neither clipped nor noised. Leave out what made it: backward() of another loss than "
    "engine.loss(*batch), or than that of the criterion that make_private returned; for an L2 term use the "
    "optimizer's weight_decay, and put a term that reads records into losses_of; clipping by "
    "torch.nn.utils.clip_grad_norm_ or a trainer (max_grad_norm, gradient_clip_val) is done by the engine. "
    "Then call optimizer.zero_grad()."
)


@dataclass(eq=False)
class _Made:
    """clipped: the sum of one draw; None once its step is over, as the user may keep the loss. has_backward:
    whether backward() was called.
    """

    clipped: ClippedSum | None
    has_backward: bool = False


class TurnLoop:
    """One draw at a time: a loss, a backward pass, a step.

    losses: makes the checked losses of a pass. clip: their clipped sum. check_may_step: raises if no data may
    be touched. shows_loss: whether the value of the scalar is the mean of the losses, which is raw data; else
    it is NaN.
    """

    def __init__(
        self,
        loader: DrawLoader,
        rule: DpSgd,
        losses: Callable[..., Tensor],
        clip: Callable[[Tensor], ClippedSum],
        check_may_step: Callable[[], None],
        *,
        physical_batch_size: int,
        shows_loss: bool,
    ) -> None:
        if physical_batch_size < 1:
            raise ConfigError(f"Expected physical_batch_size={physical_batch_size} >= 1.")
        self.loader, self._rule, self._losses, self._clip = loader, rule, losses, clip
        self._check_may_step = check_may_step
        self._physical, self._shows_loss = physical_batch_size, shows_loss
        self._made: _Made | None = None
        self._noisy: Any = WeakIdKeyDictionary()  # the gradients of the last step -> their versions

    @property
    def _device(self) -> torch.device:
        return next(iter(self._rule.parameters.values())).device

    def loss(self, *batch: Any) -> Tensor:
        """The scalar of a batch, whose passes are run here. An empty draw calls nothing."""
        size = num_rows(batch)
        self._begin(batch, size)
        means: list[Tensor] = []

        def passes() -> Iterator[ClippedSum]:
            count = -(-size // self._physical)
            for i in range(count):
                part = slice(i * size // count, (i + 1) * size // count)
                losses = self._losses(*rows_of(batch, part))
                means.append(losses.detach().sum() / size if self._shows_loss else losses.new_zeros(()))
                yield self._clipped(losses, part.stop - part.start)

        with secret_masks(self._device):
            clipped = added_up(self._rule, passes())
        return self._scalar(clipped, sum(means))

    def scalar_of(self, losses: Tensor, *batch: Any, most: int | None) -> Tensor:
        """The scalar of a draw's losses (N,), which the user's own pass has made. most: of a pass."""
        size = len(losses)
        self._begin(batch, size)
        if most is not None and size > most:
            raise ConfigError(
                f"This draw has more records than physical_batch_size={most}, and the loop's own call of the "
                "model cannot be cut. Draws differ in size: leave out physical_batch_size, or make a "
                "PrivacyEngine(losses_of=...), and write loss = engine.loss(x, y), which cuts "
                "(docs/training_loop.md)."
            )
        return self._scalar(self._clipped(losses, size), losses.detach().sum() / max(1, size))

    def _begin(self, batch: Any, size: int) -> None:
        self._check_may_step()
        if self._made is not None:
            raise ConfigError(
                "The draw before has a loss and no step, or this is its loss a second time. Each turn of the "
                "loop is one draw: one loss, one backward(), one optimizer.step(). Several turns cannot be "
                "gathered for one step (gradient accumulation): attach(physical_batch_size=...) saves the "
                "memory. After an error begin a new loop over the loader."
            )
        self.loader.sampler.check_batch((tensor for _, tensor in tensors(batch)), size)

    def _clipped(self, losses: Tensor, size: int) -> ClippedSum:
        if isinstance(losses, Tensor) and losses.dim() == 1 and len(losses) != size:
            raise ConfigError(f"Got {len(losses)} losses for {size} records: losses_of returns one for each.")
        with torch.autocast(losses.device.type, enabled=False):
            return self._clip(losses)

    def _scalar(self, clipped: ClippedSum, mean: Tensor | int) -> Tensor:
        made = self._made = _Made(clipped)
        anchor = torch.zeros((), device=self._device)
        value = anchor + (mean if self._shows_loss else torch.nan)
        with torch.enable_grad():
            return _Scalar.apply(anchor.requires_grad_(), value, lambda grad: self._confirm(made, grad))  # type: ignore[no-any-return]

    def _confirm(self, made: _Made, grad: Tensor) -> None:
        """Confirm the sum: backward() was called."""
        if made is not self._made or made.has_backward:
            raise ConfigError(
                "A second backward() of one loss, or one after its step or in a new loop: each draw has one."
            )
        if float(grad) != 1.0:
            raise ConfigError(
                "backward() of a scaled loss: by loss / n, -loss, gradient accumulation (attach("
                "physical_batch_size=...) saves the memory) or GradScaler (bfloat16 needs none). The clipped "
                "sum would stay as it is, so begin at the loss itself: scale the learning rate, or in "
                "losses_of each record's own loss."
            )
        self._check_gradients()
        made.has_backward = True

    def _check_gradients(self) -> None:
        """ConfigError unless each gradient is what the last step has left, None, or zero."""
        for name, parameter in self._rule.parameters.items():
            if (grad := parameter.grad) is None or self._noisy.get(grad) == grad._version:
                continue
            if grad.any():
                raise ConfigError(f"{name}.grad was written between two private steps. {_RAW}")

    def before_step(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ClippedSum:
        """The sum that a step with these arguments takes; a closure is called, and does the turn.

        Raises ConfigError, before anything is paid, for a draw without its backward pass.
        """
        if "loss" in kwargs:
            self.refuse_losses()
        if len(args) > 2 or kwargs.keys() - {"closure"}:
            raise TypeError("A private step takes nothing but a closure.")
        if (closure := kwargs.get("closure", args[1] if len(args) > 1 else None)) is not None:
            with torch.enable_grad():
                closure()
        draw = self.loader.sampler.check_drawn()
        self._check_gradients()
        if self._made is not None and self._made.has_backward and self._made.clipped is not None:
            return self._made.clipped
        if draw.drawn:
            raise ConfigError(
                "optimizer.step() without loss.backward() of this draw, or after backward(inputs=...), which "
                "leaves the loss out. In each turn: loss = engine.loss(*batch), loss.backward(), the step."
            )
        return nothing(self._rule)

    def step_taken(self) -> None:
        """The gradients are noisy now."""
        self.drop()
        self._noisy = WeakIdKeyDictionary()
        for parameter in self._rule.parameters.values():
            self._noisy[parameter.grad] = parameter.grad._version  # type: ignore[union-attr]

    def drop(self) -> None:
        if self._made is not None:
            self._made.clipped = None
        self._made = None

    def refuse_losses(self) -> None:
        raise ConfigError(
            "The engine was attached with loader=, where a turn is loss = engine.loss(*batch), "
            "loss.backward(), optimizer.step(). For optimizer.step(loss=losses) and virtual_step give attach "
            "a sampler=."
        )


class _Scalar(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, anchor: Tensor, value: Tensor, meant: Callable[[Tensor], None]) -> Tensor:
        ctx.meant = meant
        return value.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, None, None]:
        ctx.meant(grad)
        return None, None, None
