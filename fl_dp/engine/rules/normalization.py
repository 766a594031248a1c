"""Scales and shifts of GroupNorm and LayerNorm. Both normalise each example alone, so the rules are exact."""

import math

import torch
from torch import Tensor

from fl_dp.engine.gradients.example_chunks import example_chunks
from fl_dp.engine.gradients.layouts import Dense, GradientLayout
from fl_dp.engine.rule import Rule, Site, refuse

_FUSED_POSITIONS = 16  # with fewer positions PyTorch's own group norm backward is slow


def group_norm(site: Site) -> GradientLayout:
    """NativeGroupNormBackward0(input (M, C, ...), weight (C,), bias (C,))."""
    if site.key.argument == 0 or site.axis.dim != 0:
        refuse(site.key, "only the weight and bias of a group norm over (N, channels, ...) have a rule")
    grad = site.grad.reshape(*site.grad.shape[:2], -1)  # (M, C, S)
    sums = grad.sum(2) if site.key.argument == 2 else _group_norm_scale(site, grad)
    return Dense(site.sums(sums))  # (N, C)


def _group_norm_scale(site: Site, grad: Tensor) -> Tensor:
    """(M, C) sums over positions of gradient times normalised input."""
    M, C, S = grad.shape
    grad, x = grad.contiguous(), site.node._saved_input.reshape(grad.shape).contiguous()
    mean, rstd = site.node._saved_result1, site.node._saved_result2  # (M, groups)
    groups = site.node._saved_group
    if grad.device.type == "cpu" and S >= _FUSED_POSITIONS and grad.dtype == x.dtype == mean.dtype:
        # All images as one image of M * C channels: PyTorch then computes the sums as the gradient of its
        # weight, in one pass without copies. The weight's values do not matter, but PyTorch 2.11 wants one.
        _, sums, _ = torch.ops.aten.native_group_norm_backward(
            grad.view(1, M * C, S),
            x.view(1, M * C, S),
            mean.view(1, -1),
            rstd.view(1, -1),
            grad.new_ones(M * C),
            1,
            M * C,
            S,
            M * groups,
            (False, True, False),
        )
        return sums.view(M, C)  # type: ignore[no-any-return]
    normalized = (x.view(M, groups, -1) - mean[:, :, None]) * rstd[:, :, None]
    scaled: Tensor = normalized.view(M, C, S).mul_(grad)
    return scaled.sum(2)


def layer_norm(site: Site) -> GradientLayout:
    """NativeLayerNormBackward0(input, weight, bias), both over the last dimensions."""
    node = site.node
    trailing = len(node._saved_normalized_shape)
    if site.key.argument == 0 or site.axis.dim >= site.grad.dim() - trailing:
        refuse(site.key, "only the weight and bias of a layer norm within one example have a rule")
    if site.key.argument == 2:
        return Dense(_sum_leading(site.rows(site.grad), trailing))
    tensors = (site.grad, node._saved_input, node._saved_result1, node._saved_result2)
    grad, x, mean, rstd = (site.rows(tensor) for tensor in tensors)
    sums = []
    for part in example_chunks(len(grad), math.prod(grad.shape[1:]), grad.dtype, grad.device):
        normalized = ((x[part] - mean[part]) * rstd[part]).mul_(grad[part])
        sums.append(_sum_leading(normalized, trailing))
    return Dense(torch.cat(sums))


def _sum_leading(rows: Tensor, trailing: int) -> Tensor:
    """(N, K, ..., *normalized shape) summed over all but N and the last `trailing` dimensions."""
    return rows.flatten(1, rows.dim() - trailing - 1).sum(1)


RULES = {"NativeGroupNormBackward0": Rule(group_norm), "NativeLayerNormBackward0": Rule(layer_norm)}
