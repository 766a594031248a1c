"""The words of adaptive-clipping."""

import pytest

from fl_dp.config.adaptive_clipping import Adaptation, adaptation_of
from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError


def test_the_words():
    assert adaptation_of("") is None
    assert adaptation_of("quantile:0.5") == Adaptation(0.5, 0.2)
    assert adaptation_of("quantile:.9:1e-2") == Adaptation(0.9, 0.01)
    assert adaptation_of(f"quantile:{1 / 3}:{2e-05}") == Adaptation(1 / 3, 2e-05)
    RunConfig(adaptive_clipping="quantile:0.5")
    with pytest.raises(ConfigError, match="no value with privacy = off, as nothing is clipped"):
        RunConfig(adaptive_clipping="quantile:0.5", privacy="off")


@pytest.mark.parametrize(
    "text",
    ["quantile", "quantile:", "quantile:0", "quantile:1", "quantile:nan", "quantile:x", "median:0.5",
     "quantile:0.5:0", "quantile:0.5:inf", "quantile:0.5:nan", "quantile:0.5:2.1", "quantile:0.5:0.2:1",
     "quantile:-0.5", "quantile:x:0.5", " ",
     "quantile:0.5\n", "quantile: 0.5", "quantile:0.5\n\n:0.2", "quantile:\u0660.5", "quantile:0_0.5",
     "quantile:0." + "5" * 1000],
)  # fmt: skip
def test_anything_else_is_refused_by_name(text):
    with pytest.raises(ConfigError, match=r"adaptive-clipping = .*expected quantile:SHARE"):
        adaptation_of(text)
    with pytest.raises(ConfigError, match="adaptive-clipping"):
        RunConfig(adaptive_clipping=text)
