"""A parameter that is added to data, multiplied with them, or repeated: scales, position embeddings."""

from fl_dp.engine.gradients.layouts import GradientLayout
from fl_dp.engine.rule import Rule, Site, broadcast_sum, refuse


def addition(site: Site) -> GradientLayout:
    """AddBackward0(data, parameter) or the other way round: a sum of the output's gradient."""
    if site.parameters > 1:
        refuse(site.key, "the sum of two parameters has no rule")
    if site.key.argument == 1 and site.node._saved_alpha != 1:
        refuse(site.key, "add with alpha other than 1 has no rule")
    return broadcast_sum(site, site.grad)


def multiplication(site: Site) -> GradientLayout:
    """MulBackward0(data, parameter) or the other way round."""
    if site.parameters > 1:
        refuse(site.key, "the product of two parameters has no rule")
    other = site.node._saved_other if site.key.argument == 0 else site.node._saved_self
    return broadcast_sum(site, site.grad * other)


def expand(site: Site) -> GradientLayout:
    """ExpandBackward0(parameter): `token.expand(len(x), -1, -1)`."""
    return broadcast_sum(site, site.grad)


def repeat(site: Site) -> GradientLayout:
    """RepeatBackward0(parameter): repeating a dimension of length 1 is the same as expanding it."""
    repeats = site.node._saved_repeats
    lengths = (1,) * (len(repeats) - len(site.shape)) + tuple(site.shape)
    if any(times != 1 and length != 1 for times, length in zip(repeats, lengths, strict=True)):
        refuse(site.key, "repeating along a dimension longer than 1 has no rule")
    return broadcast_sum(site, site.grad)


# Only `probe` can tell whether the last two spread a parameter over the batch or over something else.
RULES = {
    "AddBackward0": Rule(addition),
    "MulBackward0": Rule(multiplication),
    "ExpandBackward0": Rule(expand, only_checked=True),
    "RepeatBackward0": Rule(repeat, only_checked=True),
}
