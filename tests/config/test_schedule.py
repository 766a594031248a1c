"""Learning rates, clipping bounds and noise over the rounds, by their formulas."""

import math

import pytest

from fl_dp.config.run import RunConfig
from fl_dp.config.schedule import value_in
from fl_dp.errors import ConfigError


def rates(schedule: str) -> list[float]:
    return [value_in(schedule, 0.8, server_round, 4) for server_round in (1, 2, 3, 4)]


def test_rates_are_those_of_the_formulas():
    assert rates("constant") == [0.8] * 4
    assert rates("linear") == pytest.approx([0.8, 0.6, 0.4, 0.2])
    assert rates("cosine") == pytest.approx([0.4 * (1 + math.cos(math.pi * part / 4)) for part in range(4)])
    assert rates("step:2:0.1") == pytest.approx([0.8, 0.8, 0.08, 0.08])
    assert rates("step:1:0.5") == pytest.approx([0.8, 0.4, 0.2, 0.1])
    assert rates("linear:0.5") == pytest.approx([0.8, 0.8 * 5 / 6, 0.8 * 4 / 6, 0.4])
    assert value_in("linear:0.5", 0.8, 1, 1) == 0.8
    for schedule in ("linear", "linear:0.5", "cosine"):  # a run that goes on keeps the last rate
        assert value_in(schedule, 0.8, 9, 4) == rates(schedule)[-1] > 0


@pytest.mark.parametrize(
    "schedule",
    [
        "",
        "cosinus",
        "step",
        "step:2",
        "step:0:0.5",
        "step:x:0.5",
        "step:2:0",
        "step:2:1.5",
        "step:2:nan",
        "step:-1:0.5",
        "linear:3",
        "linear:0",
        "linear:x",
        "step:2:0.5:1",
    ],
)
def test_what_is_none_is_refused(schedule):
    words = "learning-rate-schedule = .*: expected constant, linear, linear:LAST, cosine or"
    with pytest.raises(ConfigError, match=words):
        RunConfig(learning_rate_schedule=schedule)
    with pytest.raises(ConfigError, match="the value of round 400 would be 0"):
        RunConfig(learning_rate_schedule="step:1:0.1", rounds=400)
