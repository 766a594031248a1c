"""The definition, one backward pass per example, for models that are called with any structure of inputs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from definition import assert_equal, clipped_one_by_one, trainable
from torch import Tensor, nn

from fl_dp.engine.clipping import clipped_grad_sum
from fl_dp.engine.probe import probe
from fl_dp.engine.tracing.structure import map_tensors, tensors

Batch = tuple[tuple[Any, ...], dict[str, Any]]


@contextmanager
def exact() -> Iterator[None]:
    """Double precision, the same random numbers, and one thread: small tensors only wait for the others."""
    threads = torch.get_num_threads()
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
    torch.set_default_dtype(torch.float32)


def call(*args: Any, **kwargs: Any) -> Batch:
    return args, kwargs


class Called(nn.Module):
    """`layer`, called by `function`."""

    def __init__(self, layer: nn.Module, function: Callable[..., Any]) -> None:
        super().__init__()
        self.layer, self.function = layer, function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self.layer, *args, **kwargs)


class Weight(nn.Module):
    """A parameter and what is done with it."""

    def __init__(self, shape: tuple[int, ...], function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.weight, self.function = nn.Parameter(torch.randn(shape)), function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, self.weight)


class Beside(nn.Module):
    """A parameter beside a layer: a token in front of an example's rows, or a scale."""

    def __init__(self, shape: tuple[int, ...], function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.linear, self.beside = nn.Linear(6, 6), nn.Parameter(torch.randn(shape))
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.linear, self.beside, x)


def num_examples(batch: Batch) -> int:
    return next(len(tensor) for _, tensor in tensors(batch) if tensor.dim())


def losses_of(model: nn.Module, batch: Batch) -> Tensor:
    """(N,) losses that weigh all outputs that lead with the batch."""
    n = num_examples(batch)
    losses = torch.zeros(n)
    for _, output in tensors(model(*batch[0], **batch[1])):
        if output.dim() and len(output) == n and output.requires_grad:
            rows = output.reshape(n, -1) if n else output.reshape(0, 1)
            losses = losses + (rows.sin() * torch.linspace(-1.0, 1.5, rows.shape[1])).sum(1)
    return losses


def one_example(batch: Batch, n: int) -> Batch:
    size = num_examples(batch)
    return map_tensors(lambda t: t[n : n + 1] if t.dim() and len(t) == size else t, batch)


def assert_equals_definition(
    model: nn.Module,
    sample: Callable[[int], Batch],
    sizes: tuple[int, ...] = (0, 1, 7),
) -> None:
    """Checked on 3 examples, then clipped sums of batches of `sizes` examples."""
    args, kwargs = sample(3)
    axes, parameters = probe(model, *args, **kwargs), trainable(model)
    for n in sizes:
        batch = sample(n)
        for bound in (1e6, 0.3):
            found = clipped_grad_sum(losses_of(model, batch), parameters, max_grad_norm=bound, axes=axes)
            alone = (losses_of(model, one_example(batch, i)) for i in range(num_examples(batch)))
            assert_equal(found.grads, clipped_one_by_one(model, alone, bound))
