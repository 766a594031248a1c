"""A schedule of noise goes only with what its list can be paid for with."""

import pytest

from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"privacy": "off"}, "privacy = 'off': expected on"),
        ({"aggregation": "secure", "clients": 3, "fit_clients": 3}, "the members of a secure sum have one"),
        ({"adaptive_clipping": "quantile:0.5"}, "adaptive-clipping = 'quantile:0.5': expected no value"),
        ({"participations": 2}, "participations = 2: expected 0, as the list of all rounds must fit"),
        ({"strategy": "parts.py"}, "strategy = 'parts.py': expected no value"),
        ({"rounds": 1001}, "rounds = 1001: expected at most 1000"),
        ({"rounds": 51}, "expected at most 50 different multipliers, of which 51 rounds have 51"),
    ],
)
def test_what_it_does_not_go_with_is_named(other, words):
    with pytest.raises(ConfigError, match=words):
        RunConfig(noise_multiplier_schedule="linear:0.5", **other)


def test_many_rounds_may_share_few_multipliers():
    config = RunConfig(noise_multiplier_schedule="step:20:0.9", rounds=1000)
    assert len(set(config.noise_multipliers(2.0))) == 50
