"""The engine as a whole on a GPU; the same tests on the CPU keep them right where there is none."""

import math

import pytest
import torch
from definition import clipped_by_definition, clipped_by_engine, length, projected_losses
from structured import Called
from torch import Tensor, nn
from torchvision.models.vision_transformer import VisionTransformer

from fl_dp import PrivacyEngine
from fl_dp.engine.clipping import ClippedSum
from fl_dp.engine.gradients.gram import gram_product
from fl_dp.engine.gradients.outer_products import Outer
from fl_dp.engine.kernel_choice.chooser import KernelChooser
from fl_dp.engine.noise.gaussian import add_gaussian_noise
from fl_dp.engine.noise.generators import system_generator
from fl_dp.engine.probe import probe

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
DEVICES = ["cpu", pytest.param("cuda", marks=needs_gpu)]
MODES = ("mixed", "ghost", "instantiate")


MODELS = {
    "linear": (lambda: nn.Sequential(nn.Linear(6, 7), nn.Tanh(), nn.Linear(7, 3)), (4, 6)),
    "conv": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.ReLU(), nn.Conv2d(8, 4, 3)
        ),
        (3, 8, 8),
    ),
    "vision transformer": (lambda: VisionTransformer(8, 4, 1, 2, 8, 16, num_classes=3), (3, 8, 8)),
    "embedding": (lambda: nn.Sequential(nn.Embedding(11, 4), nn.Linear(4, 3)), None),
    "attention": (
        lambda: Called(nn.MultiheadAttention(6, 2, batch_first=True), lambda m, x: m(x, x, x)[0]),
        (4, 6),
    ),
}


def _made(case: str, device: str, dtype: torch.dtype, n: int = 7) -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    make, shape = MODELS[case]
    inputs = torch.randn(n, *shape).to(dtype) if shape else torch.randint(0, 11, (n, 5))
    return make().to(device, dtype), inputs.to(device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("dtype", "autocast", "within"),
    [(torch.float64, False, 1e-9), (torch.float32, False, 5e-3), (torch.float32, True, 5e-2)],
    ids=["float64", "float32", "bfloat16"],
)
@pytest.mark.parametrize("case", MODELS)
def test_equals_one_backward_per_example_and_is_never_beyond_the_bound(
    case, dtype, autocast, within, mode, device
):
    """Half a percent leaves room for TensorFloat-32, which cuDNN's convolutions use unless told not to."""

    def losses(model: nn.Module, inputs: Tensor) -> Tensor:
        with torch.autocast(device, dtype=torch.bfloat16, enabled=autocast):
            return projected_losses(model, inputs)

    model, inputs = _made(case, device, dtype)
    axes = probe(model, inputs)
    found = clipped_by_engine(model, inputs, 0.3, mode, axes, losses).grads
    alone = clipped_by_engine(model, inputs[:1], 0.3, mode, axes, losses).grads
    assert {grad.device.type for grad in found.values()} == {device}
    assert {grad.dtype for grad in found.values()} <= {dtype, torch.float64}
    expected = clipped_by_definition(*_made(case, device, torch.float64), 0.3)
    difference = {name: found[name].double() - grad for name, grad in expected.items()}
    assert length(difference) < within * length(expected)
    assert length(alone) <= 0.3 * (1 + 1e-3)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("source", ["system", "secure"])
def test_noise_is_on_the_device_and_has_the_stated_deviation(source, device):
    n, sigma = 40_000, 2.0 * 1.5
    generator = system_generator(device) if source == "system" else "secure"
    clipped = ClippedSum({"w": torch.zeros(n, device=device)}, 2.0, torch.zeros(0))
    noise = add_gaussian_noise(clipped, noise_multiplier=1.5, generator=generator)["w"]
    assert noise.device.type == device
    assert abs(float(noise.mean())) < 5 * sigma / math.sqrt(n)
    assert abs(float(noise.std()) / sigma - 1) < 5 / math.sqrt(2 * n)


@pytest.mark.parametrize("device", DEVICES)
def test_the_chooser_measures_kernels_that_agree(device):
    torch.manual_seed(0)
    layout = Outer(torch.randn(16, 8, 8, device=device), torch.randn(16, 8, 16, device=device))
    chooser = KernelChooser()
    chooser.keep("weight", layout)
    assert chooser.kernels["weight"] in layout.kernels
    norms = [layout.keep(kernel).norm_squared for kernel in layout.kernels]
    for other in norms[1:]:
        torch.testing.assert_close(other, norms[0], rtol=1e-3, atol=0)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("T", "p", "d"), [(1, 3, 5), (33, 17, 40), (600, 8, 6)])
def test_ghost_norms_equal_the_definition(T, p, d, dtype, device):  # noqa: N803
    """By Triton on a GPU where it is installed, by plain products otherwise."""
    torch.manual_seed(0)
    left, right = (torch.randn(5, T, c).to(device, dtype) for c in (p, d))
    exact = torch.bmm(left.double().transpose(1, 2), right.double()).square().sum((1, 2))
    found = gram_product(left, right)[0]
    assert (found >= exact * (1 - 1e-12)).all()
    torch.testing.assert_close(found.double(), exact, rtol=3e-2, atol=0)


@needs_gpu
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_ghost_norms_hold_no_gram_matrix(dtype):
    T = 16_384
    left, right = (torch.randn(2, T, 8, device="cuda").to(dtype) for _ in range(2))
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    gram_product(left, right)
    assert torch.cuda.max_memory_allocated() - before < 0.1 * 2 * T**2 * 4


@pytest.mark.parametrize("device", DEVICES)
def test_a_private_step_trains_on_the_device(device):
    model, inputs = _made("conv", device, torch.float32)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    engine = PrivacyEngine(model, batch_size=7, sample_size=100, max_grad_norm=0.3, noise_multiplier=1.0)
    engine.attach(optimizer)
    optimizer.step(loss=projected_losses(model, inputs))
    for parameter, start in zip(model.parameters(), before, strict=True):
        assert parameter.isfinite().all()
        assert not torch.equal(parameter, start)
