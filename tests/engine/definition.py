"""The definition that everything fast must equal: one backward pass per example."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from fl_dp.engine.backward import Axes
from fl_dp.engine.clipping import ClippedSum, clipped_grad_sum
from fl_dp.engine.kernel_choice.chooser import KernelChooser

Loss = Callable[[nn.Module, Tensor], Tensor]


def trainable(model: nn.Module) -> dict[str, Tensor]:
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def projected_losses(model: nn.Module, inputs: Tensor) -> Tensor:
    """(N,) losses that weigh every output differently, the same for the same example alone."""
    output = model(inputs).flatten(1) if len(inputs) else model(inputs).reshape(0, 1)
    weights = torch.linspace(-1.0, 1.5, output.shape[1], dtype=output.dtype, device=output.device)
    return (output.sin() * weights).sum(1)


def per_example_grads(model: nn.Module, inputs: Tensor, loss: Loss = projected_losses) -> list[list[Tensor]]:
    parameters = list(trainable(model).values())
    grads = []
    for n in range(len(inputs)):
        one = torch.autograd.grad(loss(model, inputs[n : n + 1]).sum(), parameters, allow_unused=True)
        pairs = zip(one, parameters, strict=True)
        grads.append([torch.zeros_like(p) if g is None else g for g, p in pairs])
    return grads


def clipped_by_definition(
    model: nn.Module, inputs: Tensor, max_grad_norm: float, loss: Loss = projected_losses
) -> Mapping[str, Tensor]:
    total = {name: torch.zeros_like(p) for name, p in trainable(model).items()}
    for grads in per_example_grads(model, inputs, loss):
        norm = torch.stack([g.pow(2).sum() for g in grads]).sum().sqrt()
        factor = min(1.0, max_grad_norm / float(norm)) if norm > 0 else 1.0
        for name, grad in zip(total, grads, strict=True):
            total[name] += factor * grad
    return total


def clipped_by_engine(
    model: nn.Module,
    inputs: Tensor,
    max_grad_norm: float,
    mode: str = "mixed",
    axes: Axes | None = None,
    loss: Loss = projected_losses,
) -> ClippedSum:
    return clipped_grad_sum(
        loss(model, inputs),
        trainable(model),
        max_grad_norm=max_grad_norm,
        axes=axes,
        chooser=KernelChooser(mode),  # type: ignore[arg-type]
    )


def length(grads: Mapping[str, Tensor]) -> float:
    return float(torch.stack([g.double().pow(2).sum() for g in grads.values()]).sum().sqrt())
