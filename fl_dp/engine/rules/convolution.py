"""Convolutions in one, two and three dimensions: stride, padding, dilation, groups."""

from fl_dp.engine.axis import LEADING
from fl_dp.engine.convolution import Conv, Geometry
from fl_dp.engine.forms import Dense, Form
from fl_dp.engine.rules.rule import Site, refuse


def convolution(site: Site) -> Form:
    """ConvolutionBackward0(input, weight, bias)."""
    node, grad = site.node, site.grad
    if node._saved_transposed:
        refuse(site.key, "transposed convolution has no rule")
    if site.key.argument == 0 or site.axis.dim != 0:
        refuse(site.key, "only the weight and bias of a convolution over (N, channels, ...) have a rule")
    if site.key.argument == 2:
        return Dense(site.rows(grad.flatten(2).sum(2)).sum(1))  # (N, p)
    return _weight(site)


def _weight(site: Site) -> Form:
    node = site.node
    geometry = Geometry(
        tuple(site.shape[2:]),
        tuple(node._saved_stride),
        tuple(node._saved_padding),
        tuple(node._saved_dilation),
        node._saved_groups,
    )
    grad, x = site.grad, node._saved_input
    if site.axis != LEADING:  # bring an example's images together; copies
        grad, x = site.rows(grad).flatten(0, 1), site.rows(x).flatten(0, 1)
    return Conv(grad.contiguous(), x.contiguous(), len(x) // site.num_examples, geometry)
