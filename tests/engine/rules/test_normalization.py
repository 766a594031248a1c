"""Refusal: a norm over several examples has no per-example gradient."""

import pytest
import torch
import torch.nn.functional as F

from fl_dp.engine.clipping import clipped_grad_sum
from fl_dp.errors import NoRuleError


def test_a_layer_norm_over_the_batch_is_refused():
    x, weight = torch.randn(4, 6), torch.ones(4, 6, requires_grad=True)
    losses = F.layer_norm(x, (4, 6), weight).sum(1)
    with pytest.raises(NoRuleError, match="layer norm within one example"):
        clipped_grad_sum(losses, {"weight": weight}, max_grad_norm=1.0)
