"""Data times a parameter, broadcast over it: LayerScale, gates, scales of any kind."""

from torch import Tensor

from fl_dp.engine.forms import Form
from fl_dp.engine.rules.broadcast import broadcast_sum
from fl_dp.engine.rules.rule import Site, refuse


def multiplication(site: Site) -> Form:
    """MulBackward0(data, parameter) or the other way round."""
    if site.parameters > 1:
        refuse(site.key, "the product of two parameters has no rule")
    other = site.node._saved_other if site.key.argument == 0 else site.node._saved_self
    if not isinstance(other, Tensor):
        refuse(site.key, "a parameter times a constant has no rule")
    return broadcast_sum(site, site.grad * other)
