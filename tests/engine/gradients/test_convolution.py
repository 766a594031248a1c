"""All gradients of a convolution's weight at once, by the kernel that its shape asks for."""

import pytest
import torch
from torch.nn import functional as F

from fl_dp.engine.gradients import convolution
from fl_dp.engine.gradients.conv_kernels import Geometry
from fl_dp.engine.gradients.convolution import Conv


@pytest.mark.parametrize(
    ("side", "images", "groups", "by_patches"),
    [(2, 1, 1, True), (2, 2, 1, True), (2, 2, 2, True), (6, 1, 1, False), (6, 2, 2, False), (6, 2, 16, None)],
)
def test_every_example_has_its_own_gradient(monkeypatch, side, images, groups, by_patches) -> None:
    """With few positions for so many numbers from patches, else as one convolution; forward if depthwise."""
    x = torch.randn(3 * images, 16, side, side, dtype=torch.float64)
    weight = torch.randn(16, 16 // groups, 3, 3, dtype=torch.float64, requires_grad=True)
    out = F.conv2d(x, weight, padding=1, groups=groups)
    left = torch.randn_like(out)
    expected = [
        torch.autograd.grad([one], [weight], [grad], retain_graph=True)[0]
        for one, grad in zip(out.split(images), left.split(images), strict=True)
    ]
    seen = []
    for name in ("grads_by_patches", "weight_grad", "grads_by_forward"):
        whole = getattr(convolution, name)
        monkeypatch.setattr(
            convolution, name, lambda *args, name=name, whole=whole: seen.append(name) or whole(*args)
        )
    found = Conv(left, x, images, Geometry((3, 3), (1, 1), (1, 1), (1, 1), groups)).instantiate()
    torch.testing.assert_close(found, torch.stack(expected))
    assert seen == [{True: "grads_by_patches", False: "weight_grad", None: "grads_by_forward"}[by_patches]]
