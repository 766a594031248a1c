"""The clients' budgets on the console: a table that stays short and fits, and claims in columns apart."""

import io
import math

import pytest
from rich.console import Console
from run_records import FEDERATION, PAID, client, summary

from fl_dp.accounting.cost import Cost
from fl_dp.records import Entry
from fl_dp.reporting.budget_table import (
    ENDS,
    alone_line,
    budget_table,
    print_budgets,
    retirement_lines,
)
from fl_dp.reporting.reports import ClientReport


def budget(epsilon: float, **changes: object) -> ClientReport:
    return client(epsilon, rounds=3, **changes)


def printed(clients, private=True, width=80, **options):
    file = io.StringIO()
    print_budgets(
        summary(clients, private=private, federation=FEDERATION), Console(file=file, width=width, **options)
    )
    return file.getvalue()


def test_the_largest_epsilon_stands_first_and_equals_in_order():
    clients = {"10": budget(1.0), "9": budget(1.0), "b": budget(2.0), "a": budget(1.0)}
    assert [row[0] for row in budget_table(summary(clients))[1]] == ["b", "9", "10", "a"]


@pytest.mark.parametrize(
    ("masked", "words"),
    [
        (True, "If that fails"),
        (False, "No masks were used: whoever ran this saw each part, and against them"),
    ],
)
def test_which_epsilon_is_which_follows_from_whether_masks_were_used(masked, words):
    found = summary({"0": budget(1.0, epsilon_alone=7.0)}, masked=masked)
    assert f'. {words}, "alone" holds: 7.00 at most' in alone_line(found)


def test_five_hundred_clients_are_shown_by_their_ends():
    rows = budget_table(summary({str(i): budget(i / 200) for i in range(500)}))[1]
    assert [row[0] for row in rows[:5]] == ["499", "498", "497", "496", "495"]
    assert rows[5] == ("... 490 more clients",)
    assert (len(rows), rows[-1][0]) == (11, "0")
    for count in (10, 11):  # nothing is hidden to save one line
        rows = budget_table(summary({str(i): budget(1.0) for i in range(count)}))[1]
        assert sorted(row[0] for row in rows) == sorted(map(str, range(count)))


def test_the_table_says_whose_epsilons_they_are_below_it():
    text = printed(
        {
            "0": budget(1.234),
            "1": budget(math.inf, status="failed", reason="[red]no reply[/red]"),
            "2": budget(1.0, accountant="rdp", arithmetic="proven"),
        }
    )
    assert text.isascii()
    assert [" ".join(line.split()) for line in text.splitlines()] == [
        "Privacy spent, by client",
        "client this run of steps rounds left last round",
        "1 inf 3.00 30 3 1 failed",
        "0 1.24 3.00 30 3 1 trained",
        "2 1.00 3.00 30 3 1 trained",
        "client 1 failed: [red]no reply[/red]",
        "epsilon at delta 1e-05, by pld, assuming steady rows, clients 0, 1",
        "epsilon at delta 1e-05, by rdp, with each record in a pass of its own, client 2",
        "epsilon: largest inf, median 1.24, smallest 1.00, of 3.00",
    ]
    assert printed({}) == ""


def test_what_a_site_claims_has_columns_of_its_own_and_is_in_no_figure_of_all():
    """Nobody asked the first: it says what it likes, and only its own row does."""
    nothing = Cost(charges=(), epsilon=0.0, claimed_epsilon=math.inf)
    liar = budget(math.inf, budget=99999.0, delta=0.1, accountant="rdp", status="idle", this_run=nothing)
    part = Cost(charges=PAID, epsilon=1.2, claimed_epsilon=1.7)
    past = budget(2.2, this_run=part, steps=90)
    honest = {"north": budget(1.3)}
    alone = printed(honest).splitlines()
    text = printed({**honest, "liar": liar, "south": past}).splitlines()
    assert [" ".join(line.split()) for line in text] == [
        "Privacy spent, by client",
        "client this run claimed total of steps rounds left last round",
        "north 1.30 0.00 1.30 3.00 30 3 1 trained",
        "south 1.20 1.70 2.20 3.00 30 3 1 trained",
        "liar 0.00 inf inf 99999.00 0 3 1 idle",
        "epsilon at delta 1e-05, by pld, assuming steady rows",
        "epsilon: largest 1.30, median 1.25, smallest 1.20, of 3.00",
        "claimed: what the ledger shows of other runs, as its site says; total: with this",
        "run",
    ]
    assert [" ".join(line.split()) for line in alone[1:]] == [
        "client this run of steps rounds left last round",
        "north 1.30 3.00 30 3 1 trained",
        "epsilon at delta 1e-05, by pld, assuming steady rows",
    ]


def test_no_line_is_wider_than_80_columns_and_no_head_is_cut():
    part = Cost(charges=(Entry(0.1, 1.0, 10**9),), epsilon=1e12, claimed_epsilon=1e12, epsilon_alone=12.5)
    clients = {
        f"hospital {k} of a name that is long": budget(
            1e12,
            budget=1e6,
            steps=10**9,
            rounds_left=10**6,
            status="declined",
            reason=f"why {k} " + "x" * 100,
            retired=3,
            epsilon_alone=15.25,
            this_run=part,
        )
        for k in range(3000)
    }
    for terminal in (False, True):
        text = printed(clients, width=80, force_terminal=terminal, color_system=None)
        assert max(map(len, text.splitlines())) <= 80
        for name in budget_table(summary(clients))[0][1:]:
            assert f"{name}: " in text  # a block for each client
        assert "hospital 0 of a name that is long" in text
        assert "... 2,990 more clients" in text
    text = printed({"a " * 30: budget(1.0), "0": budget(1.0)})
    assert " ".join(text.splitlines()[1].split()) == "client this run of steps rounds left last round"


def test_a_ledger_that_was_retired_is_named_below_the_table():
    text = printed({"south": budget(1.0, retired=1), "north": budget(1.0, retired=2), "west": budget(2.0)})
    assert text.splitlines()[-2:] == [
        "client north: its ledger was retired 2 times; it shows only what came after",
        "client south: its ledger was retired once; it shows only what came after",
    ]


def test_of_many_retired_ledgers_the_rest_are_counted():
    lines = retirement_lines({str(i): budget(1.0, retired=1) for i in range(50)})
    assert lines[ENDS:] == ["... and 45 more clients whose ledgers were retired"]


def test_every_line_about_a_run_without_privacy_says_so():
    clients = {"0": budget(math.inf, retired=1, reason="why"), "1": budget(0.0, status="idle")}
    text = printed(clients, private=False).splitlines()
    assert text[0] == "NOT PRIVATE: trained without protection, by client"
    assert text[2].split()[:5] == ["0", "NOT", "PRIVATE", "-", "30"]
    assert text[3].split()[:3] == ["1", "0.00", "3.00"]  # it took no part
    assert [line[:13] for line in text[4:]] == ["NOT PRIVATE: "] * 3
