"""Every parameter is in exactly one group, and the groups' bounds make up the sensitivity."""

import math

import pytest

from fl_dp.engine.bounds import Group, grouped, sensitivity, split_bound
from fl_dp.errors import ConfigError

NAMES = ["token", "blocks.0.weight", "blocks.0.bias", "blocks.0.norm.weight", "blocks.01.weight"]


def test_one_number_bounds_all_parameters_together():
    groups = grouped(0.3, NAMES)
    assert groups == (Group(tuple(NAMES), 0.3),)
    assert sensitivity(groups) == 0.3


def test_the_longest_key_that_leads_to_a_parameter_is_its_group():
    groups = grouped({"": 3.0, "blocks.0": 4.0, "blocks.0.bias": 12.0}, NAMES)
    assert groups == (
        Group(("token", "blocks.01.weight"), 3.0),
        Group(("blocks.0.weight", "blocks.0.norm.weight"), 4.0),
        Group(("blocks.0.bias",), 12.0),
    )
    assert sensitivity(groups) == pytest.approx(13.0)


@pytest.mark.parametrize("num_groups", [1, 2, 7, 100])
def test_split_bounds_keep_the_sensitivity(num_groups):
    bounds = split_bound(0.7, [f"layer{i}" for i in range(num_groups)])
    assert math.hypot(*bounds.values()) == pytest.approx(0.7)
    assert len(set(bounds.values())) == 1


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ({"blocks": 1.0}, "Parameter token is in no group"),
        ({"": 1.0, "block": 1.0}, "'block', to which no parameter belongs"),
        ({"blocks": 1.0, "token": 1.0, "": 1.0}, "'', to which no parameter belongs"),
        ({}, "in no group"),
    ],
)
def test_a_parameter_without_a_bound_and_a_bound_without_parameters_are_refused(bounds, words):
    with pytest.raises(ConfigError, match=words):
        grouped(bounds, NAMES)


def test_nothing_can_be_split_over_no_groups():
    with pytest.raises(ConfigError, match="at least one group"):
        split_bound(1.0, [])
