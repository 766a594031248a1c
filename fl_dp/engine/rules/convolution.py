"""Convolutions in one, two and three dimensions, transposed too: stride, padding, dilation, groups."""

from collections.abc import Sequence

from fl_dp.engine.gradients.conv_kernels import Geometry
from fl_dp.engine.gradients.convolution import Conv
from fl_dp.engine.gradients.layouts import Dense, GradientLayout
from fl_dp.engine.rule import Rule, Site, refuse
from fl_dp.engine.tracing.axis import LEADING


def convolution(site: Site) -> GradientLayout:
    """ConvolutionBackward0(input, weight, bias)."""
    grad = site.grad
    if site.key.argument == 0 or site.axis.dim != 0:
        refuse(site.key, "only the weight and bias of a convolution over (N, channels, ...) have a rule")
    if site.key.argument == 2:
        return Dense(site.sums(grad.flatten(2).sum(2)))  # (N, p)
    return _weight(site)


def _weight(site: Site) -> GradientLayout:
    node, kernel = site.node, tuple(site.shape[2:])
    stride, padding, dilation = (
        _each_dimension(saved, len(kernel))
        for saved in (node._saved_stride, node._saved_padding, node._saved_dilation)
    )
    geometry = Geometry(kernel, stride, padding, dilation, node._saved_groups)
    grad, x = site.grad, node._saved_input
    if site.axis != LEADING:  # bring an example's images together; copies
        grad, x = site.rows(grad).flatten(0, 1), site.rows(x).flatten(0, 1)
    if node._saved_transposed:  # the gradient of a convolution, whose input is our output
        grad, x = x, grad
    return Conv(grad, x, x.shape[0] // site.num_examples, geometry)


def _each_dimension(numbers: Sequence[int], dims: int) -> tuple[int, ...]:
    """One number may stand for all dimensions: PyTorch saves padding="valid" like that."""
    return tuple(numbers) * (dims if len(numbers) == 1 else 1)


RULES = {"ConvolutionBackward0": Rule(convolution)}
