"""A secure sum of histograms at the server: its noise, its members, and when it is lost."""

import math

import numpy as np
import pytest
from flwr.app import ArrayRecord, Message, RecordDict

from fl_dp.errors import FederationError
from fl_dp.federation.secure_sum.vector import grid_of
from fl_dp.federation.server.histogram_sum import HistogramSum, common_noise
from fl_dp.federation.wire.evaluation import CELLS, EvaluationOffer, EvaluationPlan
from fl_dp.federation.wire.partial_sums import make_group
from fl_dp.tasks.score_histogram import Layout

LAYOUT = Layout(2, 4)
PLAN = EvaluationPlan("run", 1, 1, 4, False, "linear", "", "record")


@pytest.mark.parametrize(
    ("offers", "noise"),
    [
        ([], 0.0),
        ([(3.0, False), (5.0, False)], 5.0),
        ([(3.0, True), (3.0, True), (5.0, False)], 3.0),
        ([(3.0, True), (5.0, False)], 5.0),
        ([(3.0, True), (5.0, True), (4.0, False)], 5.0),
    ],
)
def test_the_noise_of_the_sum_is_the_one_that_most_sites_allow(offers, noise):
    assert common_noise([EvaluationOffer(*one, ()) for one in offers]) == noise


def summed(members=5, shares=3, masked=True, lost="", **more):
    """Replies as a grid makes them, of that many members of five; d = c = 1."""
    offers = {str(number): EvaluationOffer(2.0, False, ()) for number in range(5)}
    asked = HistogramSum.of(PLAN, offers, LAYOUT, 1, 1)
    questions = {}
    for number in range(members):
        questions[str(number)] = Message(asked.content(ArrayRecord()), number + 1, "evaluate")
        questions[str(number)].metadata.__dict__["_message_id"] = str(number)
    contents = {key: RecordDict({}) for key in questions}
    arrays = None if lost else {CELLS: np.arange(LAYOUT.size) * 1000, **more}
    make_group(contents, list(contents), arrays, shares=shares, masked=masked, lost=lost)
    return asked, [Message(contents[key], reply_to=one) for key, one in questions.items()]


@pytest.mark.parametrize("members", [4, 5])
def test_an_opened_sum_is_read_on_its_grid_with_the_noise_of_all_its_members(members):
    asked, replies = summed(members, masked=False)
    assert (asked.plan.shares, asked.plan.numbers, asked.plan.sensitivity) == (3, LAYOUT.size, 1.0)
    grid = grid_of(1.0, 2.0, 3, LAYOUT.size)
    cells, deviation, report = asked.opened(replies)
    np.testing.assert_allclose(cells, np.arange(LAYOUT.size) * 1000 * grid.spacing)
    assert deviation == pytest.approx(math.sqrt(members) * grid.share_deviation)
    assert (report.clients, report.shares, report.masked) == (members, 3, False)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"members": 3}, "a sum of 3 histograms, 4 are needed"),
        ({"shares": 0}, "a sum of 5 histograms"),
        ({"lost": "2 openings"}, "2 openings"),
    ],
)
def test_a_sum_with_less_noise_than_was_paid_for_is_not_used(changes, words):
    asked, replies = summed(**changes)
    with pytest.raises(FederationError, match=words):
        asked.opened(replies)


def test_without_a_vector_there_is_no_sum():
    asked, _ = summed()
    with pytest.raises(FederationError, match="no site has given its histogram"):
        asked.opened([])
