"""What a trainer minimises: each example's own loss, for data of a form."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fl_dp.errors import ModelError
from fl_dp.form import Form

# Of records: inputs (n, *input_shape), targets (n, ...). Of persons: inputs (n, r, *input_shape), targets
# (n, r, ...), and shares (n, r), what each record's loss counts; they add up to 1 for each person.
Batch = tuple[Tensor, ...]


@dataclass(frozen=True, slots=True)
class Objective:
    """of_records: model, inputs and targets to losses (n,), each of its own record alone. form: of a record.

    per_person: records that a person is filled up to, where an example is a person; 0: it is a record.
    """

    of_records: Callable[[nn.Module, tuple[Tensor, Tensor]], Tensor]
    form: Form
    per_person: int = 0

    def losses(self, model: nn.Module, batch: Batch) -> Tensor:
        """(n,) each example's own loss; of a person the mean of its records' losses, by their shares.

        The model sees one batch of n * r records: nothing in it is new to the engine, as a layer over
        positions also has several rows for each example. ModelError where its losses are not one for each.
        """
        if not self.per_person:
            inputs, targets = batch
            return self.of_records(model, (inputs, targets))
        inputs, targets, shares = batch
        each = self.of_records(model, (inputs.flatten(0, 1), targets.flatten(0, 1)))
        if each.shape != (shares.numel(),):
            raise ModelError(f"Expected losses of shape ({shares.numel()},), one for each record.")
        return (each.view(shares.shape) * shares).sum(1)

    def blank(self, size: int) -> Batch:
        """`size` examples of random numbers, the same whatever the data hold; from torch's global generator.

        Their targets are valid: the first class, or token, and zero. All records of a person count alike.
        """
        lead = (size, self.per_person) if self.per_person else (size,)
        pair = self._inputs(lead), self._targets(lead)
        return (*pair, torch.full(lead, 1 / self.per_person)) if self.per_person else pair

    def _inputs(self, lead: tuple[int, ...]) -> Tensor:
        shape = (*lead, *self.form.input_shape)
        return torch.randint(self.form.vocabulary, shape) if self.form.vocabulary else torch.randn(shape)

    def _targets(self, lead: tuple[int, ...]) -> Tensor:
        form = self.form
        if form.targets == "numbers":
            return torch.zeros(*lead, form.outputs) if form.outputs > 1 else torch.zeros(lead)
        shape = (*lead, *form.input_shape) if form.targets == "tokens" else lead
        return torch.zeros(shape, dtype=torch.int64)
