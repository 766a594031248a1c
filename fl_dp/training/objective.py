"""What a trainer minimises: each example's own loss, for data of a form."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from fl_dp.errors import ModelError
from fl_dp.form import Form
from fl_dp.training.augmentation import AS_IT_IS, Views

# Inputs (n, *input_shape), targets (n, ...). Where an example has several rows, a person's records or a
# record's views: inputs (n, r, *input_shape), targets (n, r, ...), and shares (n, r), what each row's loss
# counts; they add up to 1 for each example.
Batch = tuple[Tensor, ...]


@dataclass(frozen=True, slots=True)
class Objective:
    """of_records: model, inputs and targets to losses (n,), each of its own record alone. form: of a record.

    per_person: records that a person is filled up to, where an example is a person; 0: it is a record.
    views: of each record, in training.
    """

    of_records: Callable[[nn.Module, tuple[Tensor, Tensor]], Tensor]
    form: Form
    per_person: int = 0
    views: Views = AS_IT_IS

    @property
    def rows(self) -> int:
        """Rows of each example, for all examples the same; 0 where an example is one row, without shares."""
        return max(1, self.per_person) * self.views.number if self.per_person or self.views.number > 1 else 0

    def of_one_record(self) -> "Objective":
        """The same, where an example is a record as it is."""
        return replace(self, per_person=0, views=AS_IT_IS)

    def losses(self, model: nn.Module, batch: Batch) -> Tensor:
        """(n,) each example's own loss; where it has several rows the mean of their losses, by their shares.

        The model sees one batch of n * r rows: nothing in it is new to the engine, as a layer over
        positions also has several rows for each example. ModelError where its losses are not one for each.
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
        """`size` examples of random numbers, the same whatever the data hold; from torch's global generator.

        Their targets are valid: the first class, or token, and zero. All rows of an example count alike.
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
