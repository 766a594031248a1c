"""Where examples mix, the layers that are known to do so are named, with what to do."""

import re

import pytest
from torch import Tensor, nn

from fl_dp.engine.tracing.known_layers import mixing_layers


class NormAct(nn.BatchNorm2d):
    """As timm's BatchNormAct2d is one."""


class OwnBatchNorm(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(0)


OURS = r"2 \(NormAct\) and 1 more\. .*replace_batch_norms\(model\) makes group norms of them"
SECOND = r"dimension 1: {}\. Unless .* batch_first=True"


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (nn.Sequential(nn.Linear(4, 4), nn.LSTM(4, 4), NormAct(4), NormAct(4)), OURS),
        (
            nn.Sequential(nn.GRU(4, 4), OwnBatchNorm()),
            r"by their names: 1 \(OwnBatchNorm\)\. .* nn\.GroupNorm",
        ),
        (nn.Sequential(nn.BatchNorm1d(4).eval(), nn.GRU(4, 4)), SECOND.format(r"1 \(GRU\)")),
        (nn.BatchNorm1d(4, track_running_stats=False).eval(), r"the model itself \(BatchNorm1d\)"),
        (nn.TransformerEncoderLayer(4, 2), SECOND.format(r"self_attn \(MultiheadAttention\)")),
        (nn.LSTM(4, 4, batch_first=True), "batch norm, for example, by GroupNorm.* batch first"),
    ],
)
def test_the_likeliest_layers_are_named(model: nn.Module, words: str) -> None:
    assert re.search(words, mixing_layers(model))
