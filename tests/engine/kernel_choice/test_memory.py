"""What is counted is what is known to be allocated: forward, backward, views, and what was there before."""

import pytest
import torch

from fl_dp.engine.kernel_choice.memory import peak_bytes

CPU = torch.device("cpu")
KIB = 256  # float32 numbers


def _grown_and_shrunk():
    a = torch.zeros(4 * KIB)
    b = a + 1
    del a
    return b, b.sum()


def _views():
    a = torch.zeros(2, KIB)
    return a, a.t(), a[1:], a.view(-1).expand(3, -1)


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (lambda: None, 0),
        (lambda: torch.zeros(KIB), 1024),
        (lambda: (torch.zeros(KIB), torch.ones(2 * KIB)), 3072),
        (lambda: [torch.zeros(KIB).sum() for _ in range(5)], 1024 + 5 * 4),
        (_grown_and_shrunk, 8192),
        (_views, 2048),
        (lambda: torch.zeros(KIB).add_(1).relu_(), 1024),
        (lambda: torch.zeros(KIB, dtype=torch.float64), 2048),
    ],
    ids=["nothing", "one", "two", "one after the other", "freed", "views", "in place", "float64"],
)
def test_the_peak_is_that_of_the_tensors_alive(run, expected):
    assert peak_bytes(run, CPU) == expected


def test_what_lived_before_is_not_counted():
    before = torch.zeros(KIB)
    assert peak_bytes(lambda: before.view(2, -1).t().mul_(2), CPU) == 0
    assert peak_bytes(lambda: (before.view(2, -1), before + 1), CPU) == 1024


def test_the_backward_pass_is_counted():
    """Activations live until they were used: (N, d) of each layer, then gradients in their place."""
    layers, d, n = 8, 32, 64
    weights = [torch.zeros(d, d, requires_grad=True) for _ in range(layers)]
    x = torch.zeros(n, d)

    def forward():
        y = x
        for weight in weights:
            y = torch.tanh(y @ weight)
        return y.sum()

    one, parameters = 4 * n * d, layers * 4 * d * d
    assert layers * one <= peak_bytes(forward, CPU) <= (layers + 1) * one + 4
    both = peak_bytes(lambda: torch.autograd.grad(forward(), weights), CPU)
    assert (layers + 1) * one < both <= (layers + 2) * one + parameters


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu_the_allocator_counts():
    device = torch.device("cuda")
    peak = peak_bytes(lambda: (torch.zeros(2**20, device=device), torch.zeros(2**20, device=device)), device)
    assert peak == 2 * 4 * 2**20
