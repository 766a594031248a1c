"""Training without protection: plain SGD, the baseline that the cost of privacy is measured against."""

from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor, nn

from fl_dp.data.persons import Examples
from fl_dp.engine.kernel_choice.physical_batch import largest_batch
from fl_dp.engine.noise.randomness import Randomness
from fl_dp.engine.sampling import physical_batches
from fl_dp.records import RoundPlan
from fl_dp.training.examples import examples_of
from fl_dp.training.local_algorithm import algorithm_of
from fl_dp.training.objective import Objective
from fl_dp.training.optimizers import descent_of
from fl_dp.training.passes import losses_at
from fl_dp.training.retreat import Retreat


class UnprotectedTrainer:
    """NOT PRIVATE: SGD on one model, with the same methods as a `PrivateTrainer`.

    A step takes the next `expected_batch_size` records of a shuffled pass over the data. The last batch of a
    pass may be smaller; then another pass begins. The loss is the mean over the batch.
    randomness: source of the shuffling and of what the model draws; None for the system's entropy.
    """

    def __init__(
        self,
        model: nn.Module,
        plan: RoundPlan,
        objective: Objective,
        *,
        device: torch.device,
        randomness: Randomness | None = None,
    ) -> None:
        self._model, self.plan, self._device = model, plan, device
        self._objective = objective
        named = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self._parameters = list(named.values())
        self.descent = descent_of(plan, self._parameters, divisor=1.0)
        self.algorithm = algorithm_of(plan, named)
        self.draw_from(randomness or Randomness.system())
        self._retreat = Retreat()

    @property
    def fits(self) -> int:
        """As in `PrivateTrainer`."""
        return self._retreat.fits

    def draw_from(self, randomness: Randomness) -> None:
        """Let all steps, from the first one on, draw from `randomness`."""
        self._randomness, self._steps = randomness, 0
        self._draws = randomness.child("draws").generator()
        self._rest_of_pass = torch.empty(0, dtype=torch.int64)

    @property
    def kernels(self) -> Mapping[str, str]:
        """Empty: the engine's kernels are not used."""
        return {}

    @property
    def most_at_once(self) -> int:
        """Examples that a step may want at once."""
        return self.plan.expected_batch_size

    def largest_physical_batch(self, memory: int, at_most: int) -> int:
        """Examples, up to `at_most`, whose gradient takes no more than `memory` bytes.

        Raises ConfigError if not even one fits.
        """
        return largest_batch(self.rehearse, memory, self._device, at_most=at_most)

    def check_losses(self) -> None:
        """Does nothing: without privacy, examples may mix."""

    def choose_rows(self, at_most: int) -> int:
        """`at_most`: passes need no shape of their own."""
        return at_most

    def check_rows(self, rows: int) -> None:
        """Does nothing: without privacy, a gradient may depend on the batch."""

    def fit_kernels(self, memory: int, rows: int) -> None:
        """Does nothing: there are no kernels to choose."""

    def use_kernels(self, kernels: Mapping[str, str]) -> None:
        """Does nothing, for the same reason."""

    def rehearse(self, size: int) -> tuple[Tensor, ...]:
        """The gradient of `size` examples of random numbers. It changes no weight."""
        examples = self._objective.blank(size)
        return torch.autograd.grad(self._sum_of_losses(*examples), self._parameters, allow_unused=True)

    def step(self, data: Examples, _sample_rate: float, physical_batch_size: int) -> None:
        """One batch, in parts of at most `physical_batch_size`. Only private steps use the sample rate."""
        batch = self._next_batch(len(data))
        with self._randomness.child("masks", self._steps).in_torch(self._device):
            gradients = self._retreat.run(partial(self._gradients, data, batch), physical_batch_size)
        self._steps += 1
        with torch.no_grad():
            corrected = self.algorithm.corrected(gradients, divisor=1.0)
        self.descent.step(corrected)

    def _next_batch(self, size: int) -> Tensor:
        if not len(self._rest_of_pass):
            self._rest_of_pass = torch.randperm(size, generator=self._draws)
        wanted = self.plan.expected_batch_size
        batch, self._rest_of_pass = self._rest_of_pass[:wanted], self._rest_of_pass[wanted:]
        return batch

    def _gradients(self, data: Examples, batch: Tensor, at_once: int) -> list[Tensor | None]:
        """Gradients of the batch's mean loss; None for parameters without one."""
        source, views = self._randomness.child("records", self._steps), self._objective.views
        parts = [
            torch.autograd.grad(
                self._sum_of_losses(*examples_of(data, indices, source, views)) / len(batch),
                self._parameters,
                allow_unused=True,
            )
            for indices in physical_batches(batch, at_once)
        ]
        return [None if grads[0] is None else sum(grads[1:], grads[0]) for grads in zip(*parts, strict=True)]

    def _sum_of_losses(self, *examples: Tensor) -> Tensor:
        return losses_at(self._model, self._objective, examples, self._device).sum()
