"""What a trainer minimises: each example's own loss, for data of a given form."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from fl_dp.errors import ModelError
from fl_dp.form import Form
from fl_dp.training.augmentation import AS_IT_IS, Views

# Inputs (n, *input_shape), targets (n, ...). If an example has several rows, a person's records or a record's
# views: inputs (n, r, *input_shape), targets (n, r, ...), and shares (n, r), the weight of each row's loss;
# they add up to 1 for each example.
Batch = tuple[Tensor, ...]


@dataclass(frozen=True, slots=True)
class Objective:
    """of_records: model, inputs and targets to losses (n,), each of its own record alone. form: of a record.

    per_person: records to which each person is padded, if an example is a person; 0: it is a record.
    views: of each record, in training.
    """

    of_records: Callable[[nn.Module, tuple[Tensor, Tensor]], Tensor]
    form: Form
    per_person: int = 0
    views: Views = AS_IT_IS

    @property
    def rows(self) -> int:
        """Rows of each example, the same for all examples; 0 if an example is one row, without shares."""
        return max(1, self.per_person) * self.views.number if self.per_person or self.views.number > 1 else 0

    def of_one_record(self) -> "Objective":
        """The same objective with single records, unchanged, as examples."""
        return replace(self, per_person=0, views=AS_IT_IS)

    def losses(self, model: nn.Module, batch: Batch) -> Tensor:
        """(n,) each example's own loss; with several rows, the mean of their losses, weighted by shares.

        The model sees one batch of n * r rows. To the engine this is nothing new: a layer over positions
        also has several rows per example. ModelError unless the model gives one loss for each row.
        """
        if not self.rows:
            inputs, targets = batch
            return self.of_records(model, (inputs, targets))
        inputs, targets, shares = batch
        each = self.of_records(model, (inputs.flatten(0, 1), targets.flatten(0, 1)))
        if each.shape != (shares.numel(),):
            raise ModelError(f"Expected losses of shape ({shares.numel()},), one for each row.")
        return (each.view(shares.shape) * shares).sum(1)

    def blank(self, size: int) -> Batch:
        """`size` examples of random numbers from torch's global generator, the same whatever the data hold.

        Their targets are valid: the first class, or token, and zero. All rows of an example have equal
        weight.
        """
        lead = (size, self.rows) if self.rows else (size,)
        pair = self._inputs(lead), self._targets(lead)
        return (*pair, torch.full(lead, 1 / self.rows)) if self.rows else pair

    def _inputs(self, lead: tuple[int, ...]) -> Tensor:
        shape = (*lead, *self.form.input_shape)
        return torch.randint(self.form.vocabulary, shape) if self.form.vocabulary else torch.randn(shape)

    def _targets(self, lead: tuple[int, ...]) -> Tensor:
        form = self.form
        if form.targets == "numbers":
            return torch.zeros(*lead, form.outputs) if form.outputs > 1 else torch.zeros(lead)
        shape = (*lead, *form.input_shape) if form.targets == "tokens" else lead
        return torch.zeros(shape, dtype=torch.int64)
