"""Replaces every batch norm, which mixes the records of a batch, with a GroupNorm, which does not."""

import math

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

_MAX_GROUPS = 32  # Wu and He 2018, arXiv 1803.08494


def replace_batch_norms(model: nn.Module) -> None:
    """Replace, in place, every batch norm below `model`; nothing else changes.

    The number of groups is the largest power of two up to 32 that divides the channels; one for a
    BatchNorm1d. Epsilon, weight and bias are the old layer's. Opacus' ModuleValidator.fix would lose epsilon
    and the initial weights, also replace attention layers, and take 1 s to import.
    """
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, _BatchNorm):
                setattr(parent, name, _like(child))


def _like(norm: _BatchNorm) -> nn.Module:
    """A group norm, followed by what timm's batch norms include: an activation and perhaps dropout."""
    act = getattr(norm, "act", None)
    if not isinstance(act, nn.Module):
        return _group_norm_like(norm)
    drop = getattr(norm, "drop", None)
    behind = (drop, act) if isinstance(drop, nn.Module) else (act,)
    return nn.Sequential(_group_norm_like(norm), *behind)


def _group_norm_like(norm: _BatchNorm) -> nn.GroupNorm:
    # features without positions would be groups of one number each, and the norm of one number is 0
    groups = 1 if isinstance(norm, nn.BatchNorm1d) else math.gcd(_MAX_GROUPS, norm.num_features)
    replacement = nn.GroupNorm(groups, norm.num_features, eps=norm.eps, affine=norm.affine)
    replacement.weight, replacement.bias = norm.weight, norm.bias
    return replacement
