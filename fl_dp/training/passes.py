"""The forward and backward passes of a model: examples' losses, and what is kept of their gradients."""

import copy
import logging
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from fl_dp.engine.backward import Axes, keep_gradients
from fl_dp.engine.clipping import check_losses
from fl_dp.engine.gradients.kept import Kept
from fl_dp.engine.kernel_choice.chooser import KernelChooser
from fl_dp.engine.precision import check_overrides
from fl_dp.engine.tracing.harness import in_place_of
from fl_dp.engine.unfused import unfuse
from fl_dp.errors import ProbeError
from fl_dp.training.objective import Batch, Objective
from fl_dp.training.rows import sends_ahead

logger = logging.getLogger("fl_dp")


class Passes:
    """axes: from `probe`. chooser: of the kernels; may be replaced."""

    def __init__(
        self,
        model: nn.Module,
        axes: Axes,
        objective: Objective,
        chooser: KernelChooser,
        *,
        device: torch.device,
    ) -> None:
        check_overrides(device)
        unfuse(model)
        self.model, self.objective, self.chooser = model, objective, chooser
        self.parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
        # After a payment, no check of real data may end a round: findings go to the client's own log.
        self._axes = axes.reporting(_note)
        self.device = device

    def on(self, device: torch.device) -> "Passes":
        """The same for a copy of the model on `device`."""
        model = copy.deepcopy(self.model).to(device)
        return Passes(model, self._axes, self.objective, self.chooser, device=device)

    @property
    def kind(self) -> tuple[object, ...]:
        """What decides the operators of a pass, besides the model and the shapes of its examples."""
        return self.objective, self.device, *self.chooser.fixed.items()

    @property
    def state(self) -> dict[str, Tensor]:
        """All parameters and buffers of the model, by name; its own memory."""
        return {**dict(self.model.named_parameters()), **dict(self.model.named_buffers())}

    def losses_of(self, *examples: Tensor) -> Tensor:
        """`losses_at` the model's weights."""
        return losses_at(self.model, self.objective, examples, self.device)

    def kept(self, batch: Batch) -> tuple[Tensor, dict[str, Kept]]:
        """Losses, and what is kept of each parameter's gradients, at the model's weights."""
        losses = self.losses_of(*batch)
        check_losses(losses)
        return losses, keep_gradients(losses, self.parameters, self._axes, self.chooser)

    def kept_at(self, batch: Batch, state: Mapping[str, Tensor]) -> tuple[Tensor, dict[str, Kept]]:
        """`kept` at these parameters and buffers, by name; no tensor moves to other memory."""
        parameters = {name: state[name] for name in self.parameters}
        with in_place_of(self.model, state):
            losses = self.losses_of(*batch)
            return losses, keep_gradients(losses, parameters, self._axes, self.chooser, settle=False)

    def as_before(self) -> None:
        """Restore modules and parameters to their state before a pass, after one that ended midway."""
        self.model.train()
        for parameter in self.parameters.values():
            parameter.requires_grad_()


def losses_at(model: nn.Module, objective: Objective, examples: Batch, device: torch.device) -> Tensor:
    """(N,) each example's own loss, from a batch's tensors on any device; in float32 at least."""
    batch = tuple(part.to(device, non_blocking=sends_ahead(device)) for part in examples)
    # with gradients, whatever state an example that raised midway has left behind
    with torch.enable_grad():
        losses = objective.losses(model, batch)
    return losses.float() if losses.dtype in (torch.bfloat16, torch.float16) else losses


def _note(error: ProbeError) -> None:
    logger.warning("a batch does not fit what was found when the model was checked: %s", error)
