"""The bars of a terminal: of rounds, clients and budgets."""

import io
from typing import Any

import pytest
from rich.console import Console
from run_records import record

from fl_dp.reporting.progress_view import MOST_CLIENTS, bars, rendered
from fl_dp.reporting.run_progress import RunProgress


def after(last: dict[str, Any]) -> RunProgress:
    return RunProgress(rounds=8, budget=3.0).after(last)


def drawn(progress: RunProgress, **options: Any) -> str:
    file = io.StringIO()
    Console(file=file, force_terminal=True, width=100, **options).print(rendered(progress, 1.0))
    return file.getvalue()


def test_rounds_the_federations_budget_and_each_of_few_clients() -> None:
    found = bars(after(record(2)), 1.0)
    assert [bar[:3] for bar in found] == [
        ("rounds", 2, 8), ("epsilon", 2.0, 3.0), ("  0", 1.0, 3.0), ("  1", 1.001, 3.0),
    ]  # fmt: skip
    assert found[0][3] == "2 of 8 are over, about 24 s left"
    assert found[1][3] == "2.00 of 3.00 of the federation"
    assert found[3][3] == "1.01 of 3.00"  # rounded up


def test_a_client_with_a_lower_budget_of_its_own_is_held_against_that() -> None:
    last = record()
    last["clients"]["1"]["budget"] = 2.0
    assert bars(after(last), 1.0)[-1] == ("  1", 1.001, 2.0, "1.01 of 2.00")
    last["clients"]["1"]["budget"] = None  # of an older fl_dp
    assert bars(after(last), 1.0)[-1][2] == 3.0


def test_many_clients_are_shown_by_their_ends_and_the_middle() -> None:
    found = bars(after(record(clients=MOST_CLIENTS + 5)), 1.0)
    assert [(name, done) for name, done, _, _ in found[2:]] == [
        ("  largest", 2.0), ("  median", 1.5), ("  least", 1.0),
    ]  # fmt: skip
    assert found[2][3] == "2.00 of 3.00 of 11 clients"


def test_answers_are_counted_of_those_that_were_asked() -> None:
    found = bars(RunProgress(rounds=8, budget=3.0, server_round=3, asked=5, answered=2, speed=1234.0), 1.0)
    assert found[1] == ("clients", 2, 5, "round 3: 2 of 5 clients have answered, 1,234 records/s")


def test_without_privacy_there_is_no_bar_of_an_epsilon() -> None:
    last = record(private=False, epsilon=None)
    assert bars(after(last), 1.0)[1:] == [("epsilon", 0.0, 1.0, "NOT PRIVATE (no epsilon holds)")]


def test_an_epsilon_that_is_infinite_fills_the_bar() -> None:
    last = record(epsilon=None)
    assert bars(after(last), 1.0)[1] == ("epsilon", 3.0, 3.0, "inf of 3.00 of the federation")


def test_names_are_no_markup_and_move_no_cursor() -> None:
    last = record(clients=1)
    last["clients"] = {"[red]x[/red]\x1b\n": last["clients"]["0"], "y" * 50: last["clients"]["0"]}
    text = drawn(after(last), no_color=True)
    assert r"[red]x[/red]\u001b " in text
    assert "\x1b[2J" not in text
    assert "y" * 19 + "…" in text


def test_colours_are_left_away_where_they_are_not_wished_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[9" not in drawn(after(record()))
    monkeypatch.delenv("NO_COLOR")
    assert "\x1b[9" in drawn(after(record()), color_system="standard")
