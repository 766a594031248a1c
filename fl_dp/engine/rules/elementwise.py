"""A parameter added to data: biases that PyTorch adds apart, position embeddings."""

from torch import Tensor

from fl_dp.engine.gradients.layouts import Dense, Form
from fl_dp.engine.rules.rule import Site, refuse


def addition(site: Site) -> Form:
    """AddBackward0(data, parameter) or the other way round: a sum of the output's gradient."""
    if site.parameters > 1:
        refuse(site.key, "the sum of two parameters has no rule")
    if site.key.argument == 1 and site.node._saved_alpha != 1:
        refuse(site.key, "add with alpha other than 1 has no rule")
    return broadcast_sum(site, site.grad)


def multiplication(site: Site) -> Form:
    """MulBackward0(data, parameter) or the other way round."""
    if site.parameters > 1:
        refuse(site.key, "the product of two parameters has no rule")
    other = site.node._saved_other if site.key.argument == 0 else site.node._saved_self
    if not isinstance(other, Tensor):
        refuse(site.key, "a parameter times a constant has no rule")
    return broadcast_sum(site, site.grad * other)


def expand(site: Site) -> Form:
    """ExpandBackward0(parameter): `token.expand(len(x), -1, -1)`."""
    return broadcast_sum(site, site.grad)


def repeat(site: Site) -> Form:
    """RepeatBackward0(parameter): the same as expanding where what is repeated has length 1."""
    repeats = site.node._saved_repeats
    lengths = (1,) * (len(repeats) - len(site.shape)) + tuple(site.shape)
    if any(times != 1 and length != 1 for times, length in zip(repeats, lengths, strict=True)):
        refuse(site.key, "repeating along a dimension longer than 1 has no rule")
    return broadcast_sum(site, site.grad)


def broadcast_sum(site: Site, grad: Tensor) -> Form:
    """`grad`, of the output's shape, summed for each example over what `site.shape` was broadcast along."""
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
