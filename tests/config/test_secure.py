"""What means nothing, or something else, where only sums are seen is refused before anything starts."""

import pytest

from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError

SUMS = {"clients": 5, "min_clients": 5, "fit_clients": 5, "aggregation": "secure", "secure_dropouts": 1}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"privacy": "off"}, "a sum without noise protects nobody"),
        ({"sampling": "poisson"}, "how many members there are is public"),
        ({"weights": "uniform"}, "each record counts alike in a sum"),
        ({"momentum": 0.5}, "take server-optimizer = fedavgm"),
        ({"optimizer": "adam"}, "take server-optimizer = fedadam"),
        ({"local_algorithm": "fedprox"}, "clients take one step, from the weights sent"),
        ({"local_algorithm": "scaffold"}, "clients take one step, from the weights sent"),
        ({"adaptive_clipping": "quantile:0.5"}, "all members clip to one bound"),
        ({"personal": "head.*"}, "all members give to all parameters"),
        ({"strategy": "own.py:PARTS"}, "the sum is opened by fl_dp"),
        ({"min_updates": 3}, "a sum is opened of all but secure-dropouts members"),
    ],
)
def test_a_setting_that_does_not_go_with_sums_is_refused(settings, words):
    (key,) = settings
    with pytest.raises(
        ConfigError, match=rf'{key.replace("_", "-")} = .*{words} \(with aggregation = "secure"'
    ):
        RunConfig(**SUMS, **settings)


@pytest.mark.parametrize("settings", [{}, {"sampling": "budget"}, {"min_updates": 4}])
def test_what_goes_with_sums_is_taken(settings):
    assert RunConfig(**SUMS, **settings).secure
