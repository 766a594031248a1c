"""Groups of a normalisation without parameters, which each record's own numbers decide."""

import pytest
import torch

from fl_dp.models.architectures.norm_linear import feature_norm


@pytest.mark.parametrize(
    ("channels", "groups"), [(81, 27), (243, 27), (27, 9), (3, 1), (1, 1), (7, 1), (64, 16), (217, 7), (4, 1)]
)
def test_groups_divide_the_channels_and_hold_three_at_least(channels: int, groups: int) -> None:
    norm = feature_norm(channels)
    assert (norm.num_groups, norm.num_channels) == (groups, channels)
    assert list(norm.parameters()) == []


def test_one_may_choose_them() -> None:
    assert feature_norm(81, "9").num_groups == 9
    for wrong in ("27", "0", "-9", "nine", "09"):
        with pytest.raises(ValueError, match="a number of groups that divides 64 channels"):
            feature_norm(64, wrong)


def test_each_record_is_normalised_by_itself() -> None:
    x = torch.randn(4, 81, 2, 2) * torch.tensor([1.0, 10.0, 100.0, 0.1]).view(4, 1, 1, 1)
    out = feature_norm(81)(x)
    assert torch.equal(out[2:3], feature_norm(81)(x[2:3]))
    groups = out.view(4, 27, -1)
    torch.testing.assert_close(groups.mean(dim=2), torch.zeros(4, 27), atol=1e-5, rtol=0)
    torch.testing.assert_close(groups.var(dim=2, correction=0), torch.ones(4, 27), atol=1e-2, rtol=0)
