"""Without examples; with them, test_clipping.py and kernel_choice/test_chooser.py know outer products."""

import torch

from fl_dp.engine.gradients.outer_products import Outer


def test_no_examples_have_a_sum_of_zero() -> None:
    kept = Outer(torch.randn(5, 3, 3), torch.randn(5, 3, 4)).keep("ghost")
    total = kept.weighted_sum(torch.ones(5), torch.zeros(0, dtype=torch.int64))
    assert torch.equal(total, torch.zeros(3, 4, dtype=torch.float64))
