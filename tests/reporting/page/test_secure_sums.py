"""The page of a run with secure sums: two epsilons, and which of them is which."""

import pytest

from fl_dp.reporting.page.read import read_run
from fl_dp.reporting.page.render import render_page
from fl_dp.reporting.page.secure_sums import secure_sums
from fl_dp.reporting.page.tables import clients as client_table
from fl_dp.reporting.page.words import clauses, headline

from .conftest import Make
from .reading import Page
from .runs import launched, of_sums, opened


@pytest.mark.parametrize(("alone", "words"), [(7.0, "7.00"), (None, "none"), (20.5, "none"), (400.0, "none")])
def test_both_epsilons_are_told_and_which_is_which(make: Make, alone: float | None, words: str) -> None:
    run = read_run(of_sums(make(), alone))
    (clause,) = secure_sums(run)
    assert ("no useful epsilon holds" in clause.text) == (words == "none")
    assert "8 shares" in clause.text
    assert f"If the assumption behind secure sums fails: epsilon {words}." in headline(run)
    table = client_table(run)
    place = table.columns.index("if the assumption fails")
    assert table.rows[0][place] == words
    assert table.rows[1][place] == table.rows[1][1]  # no secure sums: both are one
    text = " ".join(Page(render_page(of_sums(make("again"), alone))).text.split())
    assert "Epsilon, if the assumption behind secure sums fails" in text
    assert "Of secure sums it sees only the sums" in text
    assert clause in clauses(run)
    assert clause.heading in text


@pytest.mark.parametrize(
    ("shares", "copies", "words"),
    [
        (8, 3, "a person may be at 3 clients of a sum"),
        (1, 2, "made up of 1 share, and"),
        (8, 1, "made up of 8 shares, and"),
    ],
)
def test_shares_and_persons_are_told(make: Make, shares: int, copies: int, words: str) -> None:
    (clause,) = secure_sums(read_run(of_sums(make(), 7.0, shares, copies)))
    assert words in clause.text.replace(", and a person may be at 2 clients of a sum", "")


def test_other_runs_say_nothing_of_it(make: Make) -> None:
    run = read_run(make())
    assert secure_sums(run) == ()
    assert "secure sum" not in render_page(make("other"))


@pytest.mark.parametrize(
    ("engine", "masked", "hidden"), [("", True, True), ("", False, False), ("ray", True, False)]
)
def test_the_server_is_kept_from_parts_only_where_masks_hid_them(
    make: Make, engine: str, masked: bool, hidden: bool
) -> None:
    """Whoever simulates plays server and members, with masks or without."""
    run = read_run(launched(opened(make(), masked=masked), engine))
    (clause,) = secure_sums(run)
    assert ("sees no more than such sums, the server included." in clause.text) is hidden
    assert ("if the assumption fails" in client_table(run).columns) is hidden
    assert ("against anyone who sees the parts" in client_table(run).columns) is not hidden
