"""How the per-example gradients of one parameter lie in memory, and their norms and weighted sums.

A layout describes per-example gradients before they are computed. By one of several kernels it computes the
length of each example's gradient, and the weighted sum of the gradients over the examples. "ghost" kernels
compute both without ever holding a per-example gradient (Goodfellow 2015; Li et al. 2021; Bu, Mao, Xu 2022,
arXiv 2205.10683). "instantiate" kernels hold all of them at once.

Each layout but the simplest has its own file: outer_products.py, convolution.py, table_rows.py.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from fl_dp.engine.gradients.kept import Kept, keep_instantiated


class GradientLayout(ABC):
    """The gradients of one parameter for N examples; `shape` is the parameter's."""

    shape: torch.Size

    @property
    @abstractmethod
    def rows(self) -> Tensor:
        """A tensor whose first dimension is the examples; it lies where the kernels run."""

    @property
    @abstractmethod
    def kernels(self) -> tuple[str, ...]:
        """Names of the kernels; `keep` takes any of them."""

    @property
    @abstractmethod
    def positions(self) -> int:
        """T: the number of outer products that an example's gradient is the sum of."""

    @property
    def ghost_ratio(self) -> float:
        """Numbers that a ghost norm holds, divided by those that instantiation holds: 2 T^2 / (p d)."""
        return 2 * self.positions**2 / math.prod(self.shape)

    @abstractmethod
    def keep(self, kernel: str) -> Kept:
        """Compute the norms by `kernel` and keep what the weighted sum will need."""

    @abstractmethod
    def instantiate(self) -> Tensor:
        """All per-example gradients, (N, *shape), in new memory except for `Dense`."""

    @abstractmethod
    def first(self, num_examples: int) -> "GradientLayout":
        """The gradients of the first few examples alone."""

    @property
    @abstractmethod
    def signature(self) -> tuple[object, ...]:
        """What decides which kernel is cheapest: kind, sizes of one example, type, device.

        The number of examples is left out: it differs in every Poisson batch, and all kernels scale with it.
        """

    @property
    def num_examples(self) -> int:
        return self.rows.shape[0]

    @property
    def device(self) -> torch.device:
        return self.rows.device


@dataclass(frozen=True, slots=True)
class Dense(GradientLayout):
    """Gradients that the rule has computed, because they are small: biases, scales, position embeddings."""

    grads: Tensor  # (N, *shape)

    @property
    def shape(self) -> torch.Size:  # type: ignore[override]
        return self.grads.shape[1:]

    @property
    def rows(self) -> Tensor:
        return self.grads

    @property
    def signature(self) -> tuple[object, ...]:
        return ("dense",)

    @property
    def kernels(self) -> tuple[str, ...]:
        return ("instantiate",)

    @property
    def positions(self) -> int:
        return 1

    @property
    def ghost_ratio(self) -> float:
        return math.inf

    def keep(self, kernel: str) -> Kept:
        return keep_instantiated(self.grads)

    def instantiate(self) -> Tensor:
        return self.grads

    def first(self, num_examples: int) -> "Dense":
        return Dense(self.grads[:num_examples])
