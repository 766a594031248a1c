"""Scales and shifts of GroupNorm and LayerNorm; each example is normalised alone, so both are exact."""

from torch import Tensor

from fl_dp.engine.forms import Dense, Form
from fl_dp.engine.rules.rule import Site, refuse


def group_norm(site: Site) -> Form:
    """NativeGroupNormBackward0(input (M, C, ...), weight (C,), bias (C,))."""
    node = site.node
    if site.key.argument == 0 or site.axis.dim != 0:
        refuse(site.key, "only the weight and bias of a group norm over (N, channels, ...) have a rule")
    grad = site.grad.reshape(*site.grad.shape[:2], -1)  # (M, C, S)
    if site.key.argument == 1:
        x = node._saved_input.reshape(grad.shape[0], node._saved_group, -1)  # (M, groups, C/groups * S)
        mean, rstd = node._saved_result1, node._saved_result2  # (M, groups)
        normalized = (x - mean[:, :, None]) * rstd[:, :, None]
        grad = grad * normalized.reshape(grad.shape)
    return Dense(site.rows(grad.sum(2)).sum(1))  # (N, C)


def layer_norm(site: Site) -> Form:
    """NativeLayerNormBackward0(input, weight, bias), both over the last dimensions."""
    node = site.node
    trailing = len(node._saved_normalized_shape)
    if site.key.argument == 0 or site.axis.dim >= site.grad.dim() - trailing:
        refuse(site.key, "only the weight and bias of a layer norm within one example have a rule")
    grad = site.grad
    if site.key.argument == 1:
        normalized = (node._saved_input - node._saved_result1) * node._saved_result2
        grad = grad * normalized
    return Dense(_sum_leading(site.rows(grad), trailing))


def _sum_leading(rows: Tensor, trailing: int) -> Tensor:
    """(N, K, ..., *normalized shape) summed over all but N and the last `trailing` dimensions."""
    return rows.flatten(1, rows.dim() - trailing - 1).sum(1)
