"""Matrix products: nn.Linear with any number of leading dimensions, also inside attention.

PyTorch flattens the leading dimensions: rows (R, d) @ W.T (d, p) + bias (p,) = (R, p).
"""

from torch import Tensor

from fl_dp.engine.gradients.layouts import Dense, GradientLayout
from fl_dp.engine.gradients.outer_products import Outer
from fl_dp.engine.rule import Rule, Site, refuse


def addmm(site: Site) -> GradientLayout:
    """AddmmBackward0(bias, rows, W.T)."""
    if site.node._saved_alpha != 1 or site.node._saved_beta != 1:
        refuse(site.key, "addmm with alpha or beta other than 1 has no rule")
    if site.key.argument == 0:
        return Dense(site.sums(site.grad))  # (N, p)
    if site.key.argument == 1:
        refuse(site.key, "a parameter as the left factor of a matrix product has no rule")
    return _weight(site, site.node._saved_mat1)


def mm(site: Site) -> GradientLayout:
    """MmBackward0(rows, W.T)."""
    if site.key.argument == 0:
        refuse(site.key, "a parameter as the left factor of a matrix product has no rule")
    return _weight(site, site.node._saved_self)


def _weight(site: Site, rows: Tensor) -> GradientLayout:
    if rows.is_complex():
        refuse(site.key, "a complex matrix product has no rule")
    left, right = site.rows(site.grad), site.rows(rows)  # (N, T, p), (N, T, d)
    return Outer(left, right) if site.transposed else Outer(right, left)


RULES = {"AddmmBackward0": Rule(addmm), "MmBackward0": Rule(mm)}
