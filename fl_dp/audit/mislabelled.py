"""Canaries for the user's own model: real records with wrong labels."""

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call

from fl_dp.audit.canaries import Arrays, in_persons
from fl_dp.data.persons import Examples, PersonData
from fl_dp.data.tensor_data import TensorData
from fl_dp.errors import ConfigError
from fl_dp.training.losses import loss_of


class MislabelledRecords:
    """The records `spare`, each with a wrong label, among the `ordinary` examples of a model's own data.

    If these are persons, a canary is a person with copies of its record, twice as many as may count.

    A canary's score is how far the model moved along the canary's gradient at the old weights. Gradients of
    ordinary records point in similar directions, so these canaries find much less than gradient canaries.
    They show whether there is a mistake with this model, its layers and its data.
    """

    def __init__(
        self,
        model: nn.Module,
        ordinary: Examples,
        spare: TensorData,
        seed: int = 0,
        loss: str = "cross-entropy",
    ) -> None:
        records = ordinary.records if isinstance(ordinary, PersonData) else ordinary
        if records.form.targets != "class" or len(records.classes) < 2:
            raise ConfigError("A wrong label needs data of two classes at least.")
        self.model, self.count, self.public_size = model, len(spare), len(ordinary) + len(spare)
        self._ordinary, self._records, self._loss = ordinary, records, loss_of(loss)
        generator = torch.Generator().manual_seed(seed)
        others = torch.randint(1, len(spare.classes), spare.y.shape, generator=generator)
        self._canaries = TensorData(spare.inputs, (spare.y + others) % len(spare.classes), spare.classes)

    def data(self, included: Tensor) -> Examples:
        whole, ordinary = self._ordinary, self._records
        if not included.any():
            return whole
        canaries = TensorData(self._canaries.x[included], self._canaries.y[included], ordinary.classes)
        if isinstance(whole, PersonData):
            canaries = in_persons(canaries, whole.most)
        together = TensorData(
            torch.cat([ordinary.inputs, canaries.x]),
            torch.cat([ordinary.y, canaries.y]),
            ordinary.classes,
            groups=ordinary.groups + canaries.groups if isinstance(whole, PersonData) else (),
        )
        return replace(whole, records=together) if isinstance(whole, PersonData) else together

    def scores(self, before: Arrays, after: Arrays) -> NDArray[np.float64]:
        parameters = {name: torch.tensor(array).requires_grad_() for name, array in before.items()}
        moved = {name: torch.tensor(before[name] - after[name]) for name in before}
        return np.array([self._score(i, parameters, moved) for i in range(self.count)])

    def _score(self, canary: int, parameters: dict[str, Tensor], moved: dict[str, Tensor]) -> float:
        """Inner product of the movement with the direction of the canary's gradient; 0 if that is zero."""
        inputs, label = self._canaries.batch(torch.tensor([canary]))
        outputs = functional_call(self.model, parameters, (inputs,))
        loss = self._loss.per_example(outputs, label).sum()
        grads = torch.autograd.grad(loss, list(parameters.values()), materialize_grads=True)
        length = float(torch.cat([grad.flatten() for grad in grads]).norm())
        along = sum(float((grad * moved[name]).sum()) for grad, name in zip(grads, parameters, strict=True))
        return along / length if length > 0 else 0.0
