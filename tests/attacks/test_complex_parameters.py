"""Complex parameters: a record may use all of C on their real parts, and the noise was split over both.

The server knows all records but Alice's, and that her gradient is real. A complex number of deviation sigma
has real and imaginary parts of 0.71 sigma each: PyTorch's normal for complex tensors. So the real parts had
0.71 of the noise that was paid for, which at noise multiplier 1 is an epsilon of 1.5 times that printed.
"""

import math

import pytest
import torch
from definition import clipped_by_engine
from torch import Tensor, nn

from fl_dp.engine.clipping import ClippedSum, clipped_grad_sum
from fl_dp.engine.noise.gaussian import add_gaussian_noise
from fl_dp.engine.noise.randomness import Randomness
from fl_dp.errors import NoRuleError

COUNT, BOUND, MULTIPLIER = 40_000, 0.5, 3.0


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize(
    "source", [lambda: "secure", Randomness.system, torch.Generator], ids=["secure", "keyed", "torch"]
)
def test_either_part_of_a_complex_number_has_the_noise_that_is_paid_for(source, dtype):
    nothing = ClippedSum({"w": torch.zeros(COUNT, dtype=dtype)}, BOUND, torch.zeros(0))
    noisy = add_gaussian_noise(nothing, noise_multiplier=MULTIPLIER, generator=source())["w"]
    for part in (noisy.real, noisy.imag):
        assert abs(float(part.std()) / (MULTIPLIER * BOUND) - 1) < 6 / math.sqrt(2 * COUNT)
    together = torch.corrcoef(torch.stack([noisy.real, noisy.imag]))[0, 1]
    assert abs(float(together)) < 6 / math.sqrt(COUNT)


class Complex(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, dtype=torch.complex64))

    def forward(self, x: Tensor) -> Tensor:
        return torch.view_as_real(x.to(torch.complex64) * self.weight).sum(-1)


def test_both_parts_together_are_what_is_clipped():
    """The bound itself: a record whose gradient is long in both parts moves them by C together."""
    model, inputs = Complex(), 100 * torch.randn(1, 4)
    grad = clipped_by_engine(model, inputs, BOUND).grads["weight"]
    assert abs(float(torch.view_as_real(grad).norm()) / BOUND - 1) < 1e-3


def test_a_complex_matrix_product_is_refused():
    """Its inner products were not conjugated: (1, i) had the length 0, and was not clipped."""
    layer, inputs = (
        nn.Linear(2, 3, dtype=torch.complex64),
        torch.tensor([[[1, 1j]] * 4], dtype=torch.complex64),
    )
    losses = layer(1000 * inputs).abs().sum((1, 2))
    with pytest.raises(NoRuleError, match="a complex matrix product has no rule"):
        clipped_grad_sum(losses, dict(layer.named_parameters()), max_grad_norm=BOUND)
