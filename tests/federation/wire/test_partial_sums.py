"""Sums of updates: of exactly the clients that they are said to be of, or refused."""

import numpy as np
import pytest
from flwr.app import ConfigRecord, Message, RecordDict

from fl_dp.errors import ConfigError, FederationError
from fl_dp.federation.wire.arrays import encode, specs
from fl_dp.federation.wire.messages import set_metadata
from fl_dp.federation.wire.partial_sums import (
    GROUP,
    SUM,
    ask_for_sum,
    asked_weight,
    group_of,
    make_group,
    read_sum,
)

TOTAL = {"w": np.array([3.0, 4.5])}
EXPECTED = specs({"w": np.float32([0, 0])})
WEIGHTS = {"1": 2.0, "2": 0.5, "3": 8.0}


@pytest.fixture
def replies():
    """Three replies, of which the first two are a group with the sum TOTAL."""
    contents = {message: RecordDict() for message in WEIGHTS}
    make_group(contents, ["1", "2"], TOTAL)
    found = {}
    for message, content in contents.items():
        asked = Message(RecordDict(), 7, "train")
        set_metadata(asked, message_id=message)
        found[message] = Message(content, reply_to=asked)
    return found


def test_a_weight_is_asked_for():
    assert asked_weight(RecordDict()) is None
    assert asked_weight(ask_for_sum(RecordDict(), 2.5)) == 2.5


def test_a_group_is_known_by_its_replies(replies):
    assert group_of(replies["1"]) == group_of(replies["2"]) == "1"
    assert group_of(replies["3"]) is None
    assert group_of(None) is None
    assert [SUM in replies[message].content for message in WEIGHTS] == [True, False, False]


def test_a_sum_has_the_weight_of_its_clients(replies):
    found = read_sum([replies["1"], replies["2"]], WEIGHTS, EXPECTED)
    np.testing.assert_array_equal(found.arrays["w"], TOTAL["w"])
    assert found.weight == 2.5


@pytest.mark.parametrize(
    ("members", "words"),
    [
        (["1"], "holds other updates than those"),
        (["1", "3"], "holds other updates than those"),
        (["1", "2", "3"], "holds other updates than those"),
        (["2"], "0 replies contain the sum of a group of 1"),
    ],
)
def test_a_sum_of_other_clients_is_refused(replies, members, words):
    with pytest.raises(FederationError, match=words):
        read_sum([replies[message] for message in members], WEIGHTS, EXPECTED)


def test_two_sums_of_one_group_and_one_without_the_list_of_its_members_are_refused(replies):
    for group in ({}, {"group": "1"}, {"group": "1", "messages": 7}, {"group": "1", "messages": [1]}):
        replies["1"].content[GROUP] = ConfigRecord(group)
        with pytest.raises(FederationError, match="holds other updates"):
            read_sum([replies["1"], replies["2"]], WEIGHTS, EXPECTED)
    replies["2"].content[SUM] = encode(TOTAL)
    with pytest.raises(FederationError, match="2 replies contain the sum"):
        read_sum([replies["1"], replies["2"]], WEIGHTS, EXPECTED)


@pytest.mark.parametrize("wrong", [{"w": np.zeros(3)}, {"v": np.zeros(2)}, {"w": np.array([np.inf, 0.0])}])
def test_a_sum_of_other_arrays_is_refused(replies, wrong):
    replies["1"].content[SUM] = encode(wrong)
    with pytest.raises(ConfigError):
        read_sum([replies["1"], replies["2"]], WEIGHTS, EXPECTED)


def test_a_sum_that_no_updates_add_up_to_is_refused(replies):
    """Weights 2 and 0.5 of numbers up to a million."""
    replies["1"].content[SUM] = encode({"w": np.array([2.5e6, 0.0])})
    read_sum([replies["1"], replies["2"]], WEIGHTS, EXPECTED)
    for value in (1e308, -2.6e6):
        replies["1"].content[SUM] = encode({"w": np.array([0.0, value])})
        with pytest.raises(FederationError, match="too large for these updates"):
            read_sum([replies["1"], replies["2"]], WEIGHTS, EXPECTED)
