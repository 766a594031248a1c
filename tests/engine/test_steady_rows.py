"""Evidence, no bound: a row's bits depend neither on its place nor on its neighbours, in passes of one size.

All passes of a step have one size. Of sizes from 8 up (below, other kernels are taken) a row has one result
on one thread, but not on two, where MKL splits a product of 8 rows otherwise than one of 16. Without the
mode of `fl_dp.steady_math` the row of 785 numbers was seen to have four results, by its place.
"""

import os
import platform

import pytest
import torch
from torch import nn

SIZES = [8, 16, 24, 64, 88]
MODELS = {
    "785 to 10": (lambda: nn.Linear(785, 10), (785,)),
    "785 to 1": (lambda: nn.Linear(785, 1), (785,)),
    "13 to 1": (lambda: nn.Linear(13, 1), (13,)),
    "two layers": (lambda: nn.Sequential(nn.Linear(785, 65), nn.Tanh(), nn.Linear(65, 10)), (785,)),
    "convolutions": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 16, 8, 2, padding=2),
            nn.Tanh(),
            nn.MaxPool2d(2, 1),
            nn.Conv2d(16, 32, 4, 2),
            nn.Tanh(),
            nn.Flatten(),
            nn.Linear(800, 10),
        ),
        (1, 28, 28),
    ),
    "group norm": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1),
            nn.GroupNorm(4, 16),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(16, 10),
        ),
        (3, 32, 32),
    ),
}
with_mkl = pytest.mark.skipif(
    not torch.backends.mkl.is_available() or "MKL_CBWR" not in os.environ or platform.machine() == "arm64",
    reason="PyTorch without MKL",
)


def results(model, example, sizes):
    """The bits of the example's output and input gradient, in every place of passes with other neighbours."""
    found = set()
    for size in sizes:
        for place in {0, 1, size // 2, size - 1}:
            batch = torch.randn(size, *example.shape)
            batch[place] = example
            batch.requires_grad_()
            outputs = model(batch)
            (grad,) = torch.autograd.grad(outputs.tanh().sum(), batch)
            found.add(outputs[place].detach().numpy().tobytes() + grad[place].numpy().tobytes())
    return found


@pytest.fixture(params=[1, 2])
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@with_mkl
@pytest.mark.parametrize("name", MODELS)
def test_a_row_has_one_result(name, threads):
    torch.manual_seed(0)
    make, shape = MODELS[name]
    model, example = make(), torch.randn(shape)
    by_size = [results(model, example, [size]) for size in SIZES]
    assert all(len(found) == 1 for found in by_size)
    assert threads > 1 or len(set.union(*by_size)) == 1
