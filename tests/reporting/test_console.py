"""The round line, letter by letter, and a table that stays short."""

import io

import pytest
from rich.console import Console

from fl_dp.reporting.console import ENDS, budget_rows, print_budgets, retirement_lines, round_line, rounded_up
from fl_dp.reporting.refuted import ADVICE

RECORD = {
    "round": 2, "private": True, "epsilon": 1.8312, "delta": 1e-5, "noise_multiplier": 1.1, "loss": 0.4404,
    "accuracy": 0.8711, "seconds": 6.05,
    "federation": {"running_out": [], "accountants": ["pld"], "arithmetic": "steady-rows"},
    "clients": {
        "0": {"epsilon": 1.8, "steps": 20, "sample_rate": 0.1, "status": "trained", "reason": ""},
        "1": {"epsilon": 1.8, "steps": 20, "sample_rate": 0.1, "status": "trained", "reason": ""},
    },
}  # fmt: skip


def budget(epsilon, **changes):
    return {
        "epsilon": epsilon, "accountant": "pld", "budget": 3.0, "delta": 1e-5, "steps": 30, "rounds": 3,
        "rounds_left": 1, "status": "trained", "reason": "", "retired": 0, "arithmetic": "steady-rows",
        **changes,
    }  # fmt: skip


def printed(clients, private=True, **options):
    file = io.StringIO()
    print_budgets(clients, Console(file=file, width=120, **options), private=private)
    return file.getvalue()


def test_the_line_of_a_round():
    assert round_line(RECORD, rounds=3, budget=3.0) == (
        "round 2/3  eps 1.84 of 3.00 (delta 1e-05, by pld, arithmetic steady-rows)  accuracy 0.871  "
        "loss 0.44  trained 2, declined 0, failed 0  6.0 s"
    )


def held(epsilon, budget):
    return {"status": "trained", "epsilon": epsilon, "budget": budget}


@pytest.mark.parametrize(
    ("clients_per_person", "clients", "words"),
    [
        (1, [held(1.2, 3.0), held(2.0, 2.0)], "eps 2.00 of 2.00 "),
        (1, [held(2.5, 3.0), held(2.0, 2.0)], "eps 2.50 of 3.00 "),
        (1, [held(2.0, 3.0), held(2.0, 2.0)], "eps 2.00 of 2.00 "),
        (1, [held(None, 5.0), held(2.0, 2.0)], "eps inf of 5.00 "),
        (2, [held(1.0, 4.0), held(1.5, 3.0), held(2.0, 2.0)], "eps 3.50 of 5.00 "),
    ],
)
def test_the_budget_is_that_of_the_clients_whose_epsilon_it_is(clients_per_person, clients, words):
    most = sorted(float("inf") if one["epsilon"] is None else one["epsilon"] for one in clients)[
        -clients_per_person:
    ]
    record = {
        **RECORD, "epsilon": None if most[-1] == float("inf") else sum(most),
        "clients": dict(enumerate(clients)),
        "federation": {**RECORD["federation"], "clients_per_person": clients_per_person},
    }  # fmt: skip
    assert words in round_line(record, rounds=3, budget=3.0)


STATUSES = ("trained", "idle", "failed", "failed", "declined")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"clients": {str(i): {"status": status} for i, status in enumerate(STATUSES)}},
            "trained 1, declined 1, failed 2",
        ),
        ({"loss": None, "epsilon": None}, "eps inf of 3.00"),
        ({"loss": None}, "loss n/a  trained 2"),
        ({"loss": None, "accuracy": None, "metrics": {}}, "-rows)  trained 2, declined 0"),  # not tested
        (
            {"federation": {**RECORD["federation"], "running_out": ["0"]}},
            "failed 0, 1 will run out of budget  6.0 s",
        ),
        # an approximate accountant's "3.00 of 3.00" may be 3.34 by another
        (
            {"federation": {"accountants": ["pld", "rdp"], "running_out": [], "arithmetic": "proven"}},
            "eps 1.84 of 3.00 (delta 1e-05, by pld, rdp, arithmetic proven)",
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


def test_the_largest_epsilon_stands_first_and_equals_in_order():
    clients = {"10": budget(1.0), "9": budget(1.0), "b": budget(2.0), "a": budget(1.0)}
    assert [row[0] for row in budget_rows(clients, private=True)] == ["b", "9", "10", "a"]


def test_five_hundred_clients_are_shown_by_their_ends():
    rows = budget_rows({str(i): budget(i / 200) for i in range(500)}, private=True)
    assert [row[0] for row in rows[:5]] == ["499", "498", "497", "496", "495"]
    assert rows[5] == ("... 490 more clients",)
    assert (len(rows), rows[-1][0]) == (11, "0")
    for count in (10, 11):  # nothing is hidden to save one line
        rows = budget_rows({str(i): budget(1.0) for i in range(count)}, private=True)
        assert sorted(row[0] for row in rows) == sorted(map(str, range(count)))


def test_on_a_pipe_the_table_is_plain_text_and_every_line_says_whose_epsilon_it_is():
    text = printed(
        {
            "0": budget(1.234),
            "1": budget(None, status="failed", reason="[red]no reply[/red]", arithmetic="assumed"),
            "2": budget(1.0, accountant="rdp", arithmetic="proven"),
        }
    )
    assert text.isascii()
    assert [" ".join(line.split()) for line in text.splitlines()[1:]] == [
        "client epsilon of delta by arithmetic steps rounds left last round",
        "1 inf 3.00 1e-05 pld assumed (refuted) 30 3 1 failed: [red]no reply[/red]",
        "0 1.24 3.00 1e-05 pld steady-rows 30 3 1 trained",
        "2 1.00 3.00 1e-05 rdp proven 30 3 1 trained",
        "epsilon, by pld, rdp, arithmetic assumed (refuted) or proven or steady-rows: largest inf, "
        "median 1.24, least 1.00",
        f"assumed (refuted): {ADVICE}",
    ]
    assert printed({}) == ""


def test_on_a_terminal_it_is_a_table_and_a_clients_words_are_no_markup():
    text = printed({"0": budget(1.0, reason="[red]x[/red]")}, force_terminal=True)
    assert "[red]x[/red]" in text
    assert "Privacy spent" in text


def test_a_ledger_that_was_retired_is_named_below_the_table():
    text = printed({"south": budget(1.0, retired=1), "north": budget(1.0, retired=2), "west": budget(2.0)})
    assert text.splitlines()[-2:] == [
        "client north: its ledger was retired 2 times; epsilon counts only what came after",
        "client south: its ledger was retired once; epsilon counts only what came after",
    ]


def test_of_many_retired_ledgers_the_rest_are_counted():
    lines = retirement_lines({str(i): budget(1.0, retired=1) for i in range(50)})
    assert lines[ENDS:] == ["... and 45 more clients whose ledgers were retired"]


def test_every_line_about_a_run_without_privacy_says_so():
    line = round_line({**RECORD, "private": False, "epsilon": None}, rounds=3, budget=3.0)
    assert line.startswith("round 2/3  NOT PRIVATE (no epsilon holds)  accuracy 0.871")
    assert "of 3.00" not in line
    clients = {"0": budget(None, retired=1), "1": budget(0.0, status="idle")}
    text = printed(clients, private=False).splitlines()
    assert text[0] == "NOT PRIVATE: trained without protection, by client"
    assert text[2].split()[:7] == ["0", "NOT", "PRIVATE", "-", "-", "-", "-"]
    assert text[3].split()[:3] == ["1", "0.00", "3.00"]  # it took no part
    assert all(line.startswith("NOT PRIVATE: ") for line in text[4:])
    assert len(text) == 6
    table = printed({"0": budget(None)}, private=False, force_terminal=True)
    assert "NOT PRIVATE: trained without protection" in table
