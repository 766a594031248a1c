"""The line of a round, letter by letter, in 80 columns whatever the run is like."""

import pytest
from rich.cells import cell_len

from fl_dp.reporting.console import RoundLines, round_line, rounded_up

RECORD = {
    "round": 2, "private": True, "epsilon": 1.8312, "delta": 1e-5, "noise_multiplier": 1.1, "loss": 0.4404,
    "accuracy": 0.8711, "seconds": 6.05,
    "federation": {"running_out": [], "accountants": ["pld"], "arithmetic": "steady-rows"},
    "clients": {
        "0": {"epsilon": 1.8, "steps": 20, "sample_rate": 0.1, "status": "trained", "reason": ""},
        "1": {"epsilon": 1.8, "steps": 20, "sample_rate": 0.1, "status": "trained", "reason": ""},
    },
}  # fmt: skip


def test_the_line_of_a_round():
    assert round_line(RECORD, rounds=3, budget=3.0) == (
        "round 2/3  eps 1.84 of 3.00  accuracy 0.871  loss 0.44  trained 2  6.0 s"
    )


def test_what_its_epsilon_means_is_said_once_and_again_when_it_is_another():
    lines = RoundLines()
    of_run = {**RECORD, "federation": {**RECORD["federation"], "scope": "this-run"}}
    of_run["clients"] = {"0": {**RECORD["clients"]["0"], "charges": [{}]}}
    assert lines.of(of_run, 3, 3.0).splitlines() == [
        "eps: the cost of this run for one record, out of the client's budget; at delta",
        "1e-05, by pld, arithmetic steady-rows",
        round_line(of_run, rounds=3, budget=3.0),
    ]
    assert lines.of(of_run, 3, 3.0) == round_line(of_run, rounds=3, budget=3.0)
    other = {**of_run, "federation": {**of_run["federation"], "accountants": ["pld", "rdp"]}}
    assert "by pld, rdp, arithmetic" in lines.of(other, 3, 3.0).replace("\n", " ")
    nobody = {**of_run, "federation": {**of_run["federation"], "accountants": []}, "delta": 0.0}
    assert lines.of(nobody, 3, 3.0).startswith("eps: nothing was spent, because no client has trained\n")
    older = RoundLines().of(RECORD, 3, 3.0).replace("\n", " ")
    assert "the cost of all runs in the clients' ledgers for one record" in older


def wide(**changes):
    """Thousands of clients, several at a person, a loss without end and both epsilons of secure sums."""
    clients = {
        f"hospital {k} of a name that is long": {
            "status": ("trained", "declined", "failed")[k % 3], "epsilon": 1.0, "budget": 99999.0,
            "scaled": 0.5, "charges": [{}],
        }
        for k in range(3000)
    }  # fmt: skip
    federation = {
        "running_out": list(clients), "accountants": ["pld", "rdp"], "arithmetic": "steady-rows",
        "epsilon_alone": 1234.5, "unit": "person", "scope": "this-run",
    }  # fmt: skip
    return {
        **RECORD, "clients": clients, "federation": federation, "round": 99999, "epsilon": None,
        "loss": 1.2345e37, "metrics": {"mean absolute error of a very long name": 123456789.0},
        "seconds": 86400.0, "lost": "because " * 40 + "x" * 200, **changes,
    }  # fmt: skip


@pytest.mark.parametrize(
    "changes", [{}, {"private": False}, {"lost": ""}, {"metrics": {"\u8bef\u5dee" * 40: 1.0}, "loss": None}]
)
def test_no_line_is_wider_than_80_columns(changes):
    record = wide(**changes)
    text = RoundLines().of(record, 100000, 3.0)
    assert max(map(cell_len, text.splitlines())) <= 80
    for words in ("round 99999/100000", "trained 1,000", "declined 1,000", "86400.0 s"):
        assert words in text
    if record["private"]:
        assert "eps inf (alone none) of 99999.00" in text
    if record["lost"]:
        assert "".join(text.split()).endswith("x" * 200)


def held(epsilon, budget):
    return {"status": "trained", "epsilon": epsilon, "budget": budget}


@pytest.mark.parametrize(
    ("clients", "words"),
    [
        ([held(1.2, 3.0), held(2.0, 2.0)], "eps 2.00 of 2.00 "),
        ([held(2.5, 3.0), held(2.0, 2.0)], "eps 2.50 of 3.00 "),
        ([held(2.0, 3.0), held(2.0, 2.0)], "eps 2.00 of 2.00 "),
        ([held(None, 5.0), held(2.0, 2.0)], "eps inf of 5.00 "),
    ],
)
def test_the_budget_is_that_of_the_client_whose_epsilon_it_is(clients, words):
    most = max(float("inf") if one["epsilon"] is None else one["epsilon"] for one in clients)
    record = {
        **RECORD, "epsilon": None if most == float("inf") else most, "clients": dict(enumerate(clients)),
    }  # fmt: skip
    assert words in round_line(record, rounds=3, budget=3.0)


STATUSES = ("trained", "idle", "failed", "failed", "declined")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"clients": {str(i): {"status": status} for i, status in enumerate(STATUSES)}},
            "trained 1, declined 1, failed 2  6.0 s",  # and nothing of who was idle
        ),
        ({"loss": None, "epsilon": None}, "eps inf of 3.00"),
        ({"loss": None}, "loss n/a  trained 2"),
        ({"loss": None, "accuracy": None, "metrics": {}}, "of 3.00  trained 2  6"),  # not tested
        (
            {"site_metrics": {"epsilon": 0.991, "epsilon_alone": 1.744, "metrics": {}, "sites": {"a": {}}}},
            "sites' metrics n/a (test eps 1.00, alone 1.75)",
        ),
        (
            {"site_metrics": {"epsilon": 0.991, "metrics": {}, "sites": {"a": {}, "b": {"unheard": 1}}}},
            "sites' metrics n/a (test eps at most 1.00)",
        ),
        (
            {"federation": {**RECORD["federation"], "running_out": ["0"]}},
            "trained 2, soon out of budget 1  6.0 s",
        ),
    ],
)
def test_what_the_line_says_of_other_rounds(changes, words):
    assert words in round_line({**RECORD, **changes}, rounds=3, budget=3.0)


@pytest.mark.parametrize(
    ("epsilon", "text"),
    [
        (1.1, "1.10"), (1.84, "1.84"), (1.8400001, "1.85"), (0.0, "0.00"), (2.995, "3.00"), (3, "3.00"),
        (0.1, "0.10"), (0.101, "0.11"), (0.0999, "0.100"), (0.013, "0.013"), (0.0131, "0.014"),
        (0.001, "0.0010"), (0.0009911, "0.00100"), (1e-4, "0.00010"), (9.91e-5, "1.0e-4"), (1e-9, "1.0e-9"),
        (1.01e-9, "1.1e-9"), (5e-324, "5.0e-324"), (float("inf"), "inf"), (None, "inf"),
    ],
)  # fmt: skip
def test_a_printed_epsilon_is_never_below_the_true_one(epsilon, text):
    assert rounded_up(epsilon) == text
    assert float(text) >= (epsilon if epsilon is not None else 0)


@pytest.mark.parametrize("epsilon", [1e16, 1.234e20, 1e308])
def test_what_only_a_damaged_file_holds_is_short(epsilon):
    assert len(rounded_up(epsilon)) < 10
    assert float(rounded_up(epsilon)) >= epsilon


def test_the_line_of_a_round_without_privacy_says_so():
    record = {**RECORD, "private": False, "epsilon": None}
    line = RoundLines().of(record, 3, 3.0)
    assert line.startswith("round 2/3  NOT PRIVATE (no epsilon holds)  accuracy 0.871")
    assert "of 3.00" not in line
