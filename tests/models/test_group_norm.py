import pytest
import torch
from torch import nn

from fl_dp.models.group_norm import replace_batch_norms


@pytest.mark.parametrize(("channels", "groups"), [(64, 32), (48, 16), (58, 2), (7, 1), (8, 8)])
def test_groups_divide_the_channels_and_the_rest_is_kept(channels: int, groups: int) -> None:
    norm = nn.BatchNorm2d(channels, eps=0.1)
    model = nn.Sequential(norm)
    replace_batch_norms(model)
    assert isinstance(model[0], nn.GroupNorm)
    assert (model[0].num_groups, model[0].num_channels, model[0].eps) == (groups, channels, 0.1)
    assert model[0].weight is norm.weight
    assert model[0].bias is norm.bias


def test_features_without_positions_are_one_group_and_not_lost() -> None:
    """A group of one number is normalised to zero."""
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8))
    replace_batch_norms(model)
    assert isinstance(model[1], nn.GroupNorm)
    assert model[1].num_groups == 1
    assert model(torch.randn(3, 4)).std() > 0.5


def test_every_kind_at_every_depth_and_nothing_else() -> None:
    inner = nn.ModuleDict(
        {"a": nn.BatchNorm1d(4, affine=False), "b": nn.InstanceNorm2d(4), "c": nn.LayerNorm(4)}
    )
    model = nn.ModuleList([nn.BatchNorm3d(4), nn.SyncBatchNorm(4), inner, nn.MultiheadAttention(4, 2)])
    replace_batch_norms(model)
    assert [type(m) for m in model[:2]] == [nn.GroupNorm, nn.GroupNorm]
    assert [type(m) for m in inner.values()] == [nn.GroupNorm, nn.InstanceNorm2d, nn.LayerNorm]
    assert inner["a"].weight is None
    assert type(model[3]) is nn.MultiheadAttention
    assert inner["a"](torch.randn(3, 4)).shape == (3, 4)
