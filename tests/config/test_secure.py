"""What means nothing, or something else, where only sums are seen is refused before anything starts."""

import pytest

from fl_dp.config.run import RunConfig
from fl_dp.config.secure import members_of
from fl_dp.errors import ConfigError

SUMS = {"clients": 5, "min_clients": 5, "fit_clients": 5, "aggregation": "secure:1"}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"privacy": "off"}, "a sum without noise protects nobody"),
        ({"sampling": "poisson"}, "the number of members is public"),
        ({"weights": "uniform"}, "each record counts equally in a sum"),
        (
            {"optimizer_settings": "momentum=0.5"},
            "set server-optimizer = fedavgm, and for all settings of sums ask fl-dp plan",
        ),
        ({"optimizer_settings": "weight_decay=0.01"}, "no value, as the server takes the steps; .*"),
        ({"optimizer": "adam"}, "set server-optimizer = fedadam"),
        ({"local_algorithm": "fedprox"}, "clients take one step from the weights that were sent"),
        ({"personal": "head.*"}, "all members contribute to all parameters"),
        ({"strategy": "own.py:PARTS"}, "fl_dp itself opens the sum"),
        ({"min_updates": 3}, "a sum opens with all members but D of secure:D:C"),
    ],
)
def test_a_setting_that_does_not_go_with_sums_is_refused(settings, words):
    (key,) = settings
    with pytest.raises(
        ConfigError, match=rf'{key.replace("_", "-")} = .*{words} \(with aggregation = "secure"'
    ):
        RunConfig(**SUMS, **settings)


@pytest.mark.parametrize(
    ("aggregation", "members"), [("secure", (0, 1)), ("secure:2", (2, 1)), ("secure:0:3", (0, 3))]
)
def test_drop_outs_and_colluders_are_in_the_name(aggregation, members):
    assert members_of(aggregation) == members


@pytest.mark.parametrize("aggregation", ["secure:", "secure:1:0", "secure:x", "secure:101", "secure:1:1:1"])
def test_other_arguments_are_refused(aggregation):
    with pytest.raises(ConfigError, match=f"^aggregation = '{aggregation}': expected secure, secure:D or"):
        RunConfig(**SUMS | {"aggregation": aggregation})


@pytest.mark.parametrize("settings", [{}, {"min_updates": 4}])
def test_what_goes_with_sums_is_taken(settings):
    assert RunConfig(**SUMS, **settings).secure
