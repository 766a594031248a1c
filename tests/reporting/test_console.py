"""The line of a round, letter by letter, in 80 columns whatever the run is like."""

import math
from dataclasses import replace

import pytest
from rich.cells import cell_len
from run_records import FEDERATION, client, record

from fl_dp.reporting.console import RoundLines, round_line, rounded_up
from fl_dp.reporting.reports import FederationBudget, SiteMetrics, TestAccount

RECORD = record(2, seconds=6.05, epsilon=1.8312, loss=0.4404, accuracy=0.8711, metrics={})


def test_the_line_of_a_round():
    assert round_line(RECORD, 3) == (
        "round 2/3  eps 1.84 of 3.00  accuracy 0.871  loss 0.44  trained 2  6.0 s"
    )


def test_what_its_epsilon_means_is_said_once_and_again_when_it_is_another():
    lines = RoundLines()
    assert lines.of(RECORD, 3).splitlines() == [
        "eps: the cost of this run for one record, out of the client's budget; at delta",
        "1e-05, by pld, assuming steady rows (a record's gradient has the same bits",
        "whatever is computed beside it)",
        round_line(RECORD, 3),
    ]
    assert lines.of(RECORD, 3) == round_line(RECORD, 3)
    other = replace(RECORD, federation=replace(FEDERATION, accountants=("pld", "rdp")))
    assert "by pld, rdp, assuming" in lines.of(other, 3).replace("\n", " ")
    nobody = replace(RECORD, federation=replace(FEDERATION, accountants=()), delta=0.0)
    assert lines.of(nobody, 3).startswith("eps: nothing was spent, because no client has trained\n")


def wide(**changes):
    """Thousands of clients, several at a person, a loss without end and both epsilons of secure sums."""
    statuses = ("trained", "declined", "failed")
    clients = {
        f"hospital {k} of a name that is long": client(
            1.0, status=statuses[k % 3], budget=99999.0, scaled=0.5
        )
        for k in range(3000)
    }
    federation = FederationBudget(
        largest=1.0,
        median=1.0,
        least=1.0,
        accountants=("pld", "rdp"),
        running_out=tuple(clients),
        unit="person",
        epsilon_alone=1234.5,
    )
    changed = {
        "epsilon": math.inf,
        "loss": 1.2345e37,
        "lost": "because " * 40 + "x" * 200,
        "metrics": {"mean absolute error of a very long name": 123456789.0},
        **changes,
    }
    return record(99999, clients, 86400.0, federation, **changed)


@pytest.mark.parametrize(
    "changes", [{}, {"private": False}, {"lost": ""}, {"metrics": {"\u8bef\u5dee" * 40: 1.0}, "loss": None}]
)
def test_no_line_is_wider_than_80_columns(changes):
    report = wide(**changes)
    text = RoundLines().of(report, 100000)
    assert max(map(cell_len, text.splitlines())) <= 80
    for words in ("round 99999/100000", "trained 1,000", "declined 1,000", "86400.0 s"):
        assert words in text
    if report.private:
        assert "eps inf (alone none) of 99999.00" in text
    if report.lost:
        assert "".join(text.split()).endswith("x" * 200)


@pytest.mark.parametrize(
    ("clients", "words"),
    [
        ([(1.2, 3.0), (2.0, 2.0)], "eps 2.00 of 2.00 "),
        ([(2.5, 3.0), (2.0, 2.0)], "eps 2.50 of 3.00 "),
        ([(2.0, 3.0), (2.0, 2.0)], "eps 2.00 of 2.00 "),
        ([(math.inf, 5.0), (2.0, 2.0)], "eps inf of 5.00 "),
    ],
)
def test_the_budget_is_that_of_the_client_whose_epsilon_it_is(clients, words):
    each = {str(k): client(epsilon, budget=budget) for k, (epsilon, budget) in enumerate(clients)}
    assert words in round_line(record(clients=each, epsilon=max(one for one, _ in clients)), 3)


SITE = TestAccount(epsilon=0.991)
SITES = SiteMetrics(epsilon=0.991, delta=1e-5, sites={"a": SITE})
STATUSES = ("trained", "idle", "failed", "failed", "declined")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"clients": {str(i): client(status=status) for i, status in enumerate(STATUSES)}},
            "trained 1, declined 1, failed 2  6.0 s",  # and nothing of who was idle
        ),
        (
            {"clients": {"a": client(), "b": client(status="idle", reason="is not there")}},
            "trained 1, left out 1",
        ),
        ({"loss": None, "epsilon": math.inf}, "eps inf of 3.00"),
        ({"loss": None}, "loss n/a  trained 2"),
        ({"loss": None, "accuracy": None, "metrics": {}}, "of 3.00  trained 2  6"),  # not tested
        (
            {"site_metrics": replace(SITES, epsilon_alone=1.744)},
            "sites' metrics n/a (test eps 1.00, alone 1.75)",
        ),
        (
            {"site_metrics": replace(SITES, sites={"a": SITE, "b": replace(SITE, unheard=1)})},
            "sites' metrics n/a (test eps at most 1.00)",
        ),
        (
            {"federation": replace(FEDERATION, running_out=("0", "a"))},
            "trained 2, soon out of budget: 0, a  6.0 s",
        ),
    ],
)
def test_what_the_line_says_of_other_rounds(changes, words):
    assert words in round_line(replace(RECORD, **changes), 3)


@pytest.mark.parametrize(
    ("epsilon", "text"),
    [
        (1.1, "1.10"),
        (1.84, "1.84"),
        (1.8400001, "1.85"),
        (0.0, "0.00"),
        (2.995, "3.00"),
        (3, "3.00"),
        (0.1, "0.10"),
        (0.101, "0.11"),
        (0.0999, "0.100"),
        (0.013, "0.013"),
        (0.0131, "0.014"),
        (0.001, "0.0010"),
        (0.0009911, "0.00100"),
        (1e-4, "0.00010"),
        (9.91e-5, "1.0e-4"),
        (1e-9, "1.0e-9"),
        (1.01e-9, "1.1e-9"),
        (5e-324, "5.0e-324"),
        (float("inf"), "inf"),
        (None, "inf"),
    ],
)
def test_a_printed_epsilon_is_never_below_the_true_one(epsilon, text):
    assert rounded_up(epsilon) == text
    assert float(text) >= (epsilon if epsilon is not None else 0)


@pytest.mark.parametrize(
    ("epsilon", "text"),
    [
        (1.2345671, "1.234568"),
        (0.5, "0.500000"),
        (1.01e-6, "1.1e-6"),
        (-math.inf, "-inf"),
        (math.nan, "nan"),
    ],
)
def test_more_decimals_tell_two_epsilons_apart_and_nothing_that_is_claimed_raises(epsilon, text):
    assert rounded_up(epsilon, 6) == text


@pytest.mark.parametrize("epsilon", [1e16, 1.234e20, 1e308])
def test_what_only_a_damaged_file_holds_is_short(epsilon):
    assert len(rounded_up(epsilon)) < 10
    assert float(rounded_up(epsilon)) >= epsilon


def test_the_line_of_a_round_without_privacy_says_so():
    line = RoundLines().of(replace(RECORD, private=False, epsilon=math.inf), 3)
    assert line.startswith("round 2/3  NOT PRIVATE (no epsilon holds)  accuracy 0.871")
    assert "of 3.00" not in line
