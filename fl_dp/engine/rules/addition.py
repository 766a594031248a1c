"""A parameter added to data: biases that PyTorch adds apart, position embeddings."""

from fl_dp.engine.forms import Form
from fl_dp.engine.rules.broadcast import broadcast_sum
from fl_dp.engine.rules.rule import Site, refuse


def addition(site: Site) -> Form:
    """AddBackward0(data, parameter) or the other way round: a sum of the output's gradient."""
    if site.parameters > 1:
        refuse(site.key, "the sum of two parameters has no rule")
    if site.key.argument == 1 and site.node._saved_alpha != 1:
        refuse(site.key, "add with alpha other than 1 has no rule")
    return broadcast_sum(site, site.grad)
