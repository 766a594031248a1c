"""A parameter added to data, broadcast over it: biases that PyTorch adds apart, position embeddings."""

import torch

from fl_dp.engine.forms import Dense, Form
from fl_dp.engine.rules.rule import Site, refuse


def addition(site: Site) -> Form:
    """AddBackward0(data, parameter) or the other way round.

    The batch must not be a dimension of the parameter: then its gradient is the output gradient,
    summed over what was broadcast.
    """
    if site.transposed or site.parameters > 1:
        refuse(site.key, "the sum of two parameters, or of a transposed one, has no rule")
    if site.key.argument == 1 and site.node._saved_alpha != 1:
        refuse(site.key, "add with alpha other than 1 has no rule")
    return broadcast_sum(site, site.grad)


def broadcast_sum(site: Site, grad: torch.Tensor) -> Form:
    """`grad`, of the output's shape, summed for each example over what `site.shape` was broadcast along."""
    shape = site.shape
    if site.axis.dim >= grad.dim() - len(shape) and shape[site.axis.dim - grad.dim()] != 1:
        refuse(site.key, f"its shape {tuple(shape)} spans the batch")
    grads = site.rows(grad)  # (N, K, *other dimensions)
    return Dense(_unbroadcast(grads, site.axis.dim, grad.dim(), shape))


def _unbroadcast(grads: torch.Tensor, batch_dim: int, dims: int, shape: torch.Size) -> torch.Tensor:
    """Sum (N, K, *others) over K and over every dimension that `shape` was broadcast along."""
    others = [d for d in range(dims) if d != batch_dim]
    broadcast = [
        2 + position for position, d in enumerate(others) if d < dims - len(shape) or shape[d - dims] == 1
    ]
    return grads.sum((1, *broadcast)).reshape(grads.shape[0], *shape)
