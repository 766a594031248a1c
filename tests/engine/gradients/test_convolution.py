"""All gradients of a convolution's weight at once, by the kernel that its shape asks for."""

import pytest
import torch
from torch.nn import functional as F

from fl_dp.engine.gradients import convolution
from fl_dp.engine.gradients.conv_kernels import Geometry
from fl_dp.engine.gradients.convolution import Conv


@pytest.mark.parametrize(
    ("side", "images", "groups", "loops"),
    [(2, 1, 1, True), (2, 2, 1, True), (2, 2, 2, True), (6, 1, 1, False), (6, 2, 2, False)],
)
def test_every_example_has_its_own_gradient(monkeypatch, side, images, groups, loops) -> None:
    """Of few positions for so many numbers one after the other, else as one grouped convolution."""
    x = torch.randn(3 * images, 16, side, side, dtype=torch.float64)
    weight = torch.randn(16, 16 // groups, 3, 3, dtype=torch.float64, requires_grad=True)
    out = F.conv2d(x, weight, padding=1, groups=groups)
    left = torch.randn_like(out)
    expected = [
        torch.autograd.grad([one], [weight], [grad], retain_graph=True)[0]
        for one, grad in zip(out.split(images), left.split(images), strict=True)
    ]
    seen = []
    whole = convolution.weight_grad
    monkeypatch.setattr(convolution, "weight_grad", lambda *args: seen.append(args) or whole(*args))
    found = Conv(left, x, images, Geometry((3, 3), (1, 1), (1, 1), (1, 1), groups)).instantiate()
    torch.testing.assert_close(found, torch.stack(expected))
    assert len(seen) == (3 if loops else 1)
