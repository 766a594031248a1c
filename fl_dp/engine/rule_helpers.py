"""Helpers that the rules of several operators share."""

from torch import Tensor

from fl_dp.engine.gradients.layouts import Dense, GradientLayout
from fl_dp.engine.rule import Site, refuse, refuse_mixing

NO_PADDING = (-1, 2**64 - 1)  # the values of `_saved_padding_idx` that stand for no padding index


def refuse_scaling_by_frequency(site: Site) -> None:
    """ModelError for an embedding whose gradients depend on how often the whole batch uses a row."""
    if site.node._saved_scale_grad_by_freq:
        refuse_mixing(site.key, "scale_grad_by_freq divides by the number of uses in the whole batch")


def broadcast_sum(site: Site, grad: Tensor) -> GradientLayout:
    """Per-example gradients of an input that was broadcast to the output's shape.

    grad: (*output's shape), the gradient of every element of the broadcast input. It is summed, for each
    example, over the dimensions along which `site.shape` was broadcast.
    """
    if site.transposed:
        refuse(site.key, "a transposed parameter that is broadcast has no rule")
    shape = site.shape
    if site.axis.dim >= grad.dim() - len(shape) and shape[site.axis.dim - grad.dim()] != 1:
        refuse(site.key, f"its shape {tuple(shape)} spans the batch")
    grads = site.rows(grad)  # (N, K, *other dimensions)
    return Dense(_unbroadcast(grads, site.axis.dim, grad.dim(), shape))


def _unbroadcast(grads: Tensor, batch_dim: int, dims: int, shape: tuple[int, ...]) -> Tensor:
    """Sum (N, K, *others) over K and over every dimension that `shape` was broadcast along."""
    others = [d for d in range(dims) if d != batch_dim]
    broadcast = [
        2 + position for position, d in enumerate(others) if d < dims - len(shape) or shape[d - dims] == 1
    ]
    return grads.sum((1, *broadcast)).reshape(grads.shape[0], *shape)
