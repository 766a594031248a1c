"""The definition that everything fast must equal: one backward pass per example."""

from collections.abc import Callable, Iterable, Mapping

import torch
from torch import Tensor, nn

from fl_dp.engine.backward import Axes
from fl_dp.engine.clipping import ClippedSum, clipped_grad_sum
from fl_dp.engine.kernel_choice.chooser import KernelChooser

Loss = Callable[[nn.Module, Tensor], Tensor]


def trainable(model: nn.Module) -> dict[str, Tensor]:
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def projected_losses(model: nn.Module, inputs: Tensor) -> Tensor:
    """(N,) losses that weigh every output differently, in float32 at least, the same for an example alone."""
    output = model(inputs).flatten(1) if len(inputs) else model(inputs).reshape(0, 1)
    output = output.to(torch.promote_types(output.dtype, torch.float32))
    weights = torch.linspace(-1.0, 1.5, output.shape[1], dtype=output.dtype, device=output.device)
    return (output.sin() * weights).sum(1)


def gradients(model: nn.Module, loss: Tensor) -> dict[str, Tensor]:
    """Of one example's loss; zeros where a parameter does not matter to it."""
    parameters = trainable(model)
    found = torch.autograd.grad(
        loss.sum(), list(parameters.values()), materialize_grads=True, allow_unused=True
    )
    return {name: grad.to_dense() for name, grad in zip(parameters, found, strict=True)}


def per_example_grads(
    model: nn.Module, inputs: Tensor, loss: Loss = projected_losses
) -> list[dict[str, Tensor]]:
    return [gradients(model, loss(model, inputs[n : n + 1])) for n in range(len(inputs))]


def clipped_one_by_one(
    model: nn.Module, losses: Iterable[Tensor], max_grad_norm: float
) -> Mapping[str, Tensor]:
    """losses: of one example each."""
    total = {name: torch.zeros_like(p) for name, p in trainable(model).items()}
    for loss in losses:
        grads = gradients(model, loss)
        norm = length(grads)
        for name, grad in grads.items():
            total[name] += min(1.0, max_grad_norm / norm) * grad if norm else grad
    return total


def clipped_by_definition(
    model: nn.Module, inputs: Tensor, max_grad_norm: float, loss: Loss = projected_losses
) -> Mapping[str, Tensor]:
    losses = (loss(model, inputs[n : n + 1]) for n in range(len(inputs)))
    return clipped_one_by_one(model, losses, max_grad_norm)


def clipped_by_engine(
    model: nn.Module,
    inputs: Tensor,
    max_grad_norm: float,
    mode: str = "mixed",
    axes: Axes | None = None,
    loss: Loss = projected_losses,
) -> ClippedSum:
    chooser = KernelChooser(mode)  # type: ignore[arg-type]
    return clipped_grad_sum(
        loss(model, inputs), trainable(model), max_grad_norm=max_grad_norm, axes=axes, chooser=chooser
    )


def length(grads: Mapping[str, Tensor]) -> float:
    return float(torch.stack([g.double().pow(2).sum() for g in grads.values()]).sum().sqrt())


def assert_equal(found: Mapping[str, Tensor], expected: Mapping[str, Tensor], within: float = 1e-9) -> None:
    for name, grad in expected.items():
        torch.testing.assert_close(
            found[name], grad, rtol=within, atol=within, msg=lambda m, n=name: f"{n}: {m}"
        )
