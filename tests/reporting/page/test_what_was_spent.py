"""What the page says was spent: by whom, before, in this run, if results decided, and where nothing was."""

from typing import Any

import pytest

from fl_dp.records import Entry
from fl_dp.reporting.console import rounded_up
from fl_dp.reporting.page.read import read_run
from fl_dp.reporting.page.render import render_page
from fl_dp.reporting.reports import INTERRUPTED
from fl_dp.statements import Stated

from .conftest import Make, change_summary, statement
from .reading import Page, page_of
from .runs import NOBODY, untrained


def test_a_model_that_later_rounds_chose_carries_the_whole_plan(make: Make) -> None:
    text = page_of(make(model="best", model_round=2)).text
    assert "This model, of round 2, was chosen knowing the later rounds." in text
    assert "the best one, of round 2" in text


@pytest.mark.parametrize("changed", [NOBODY, {}])
def test_a_run_without_a_round_has_released_nothing(make: Make, changed: dict[str, object]) -> None:
    text = page_of(untrained(make(), **changed)).text
    assert "Nothing was trained: according to this run's files, no model and no update was released." in text
    assert "epsilon infinite" not in text
    assert "Model that was kept none" in text
    assert "ended as planned" not in text
    assert ("Earlier runs in these ledgers: epsilon 0.76" in text) is not bool(changed)


def test_a_first_round_that_was_paid_for_is_not_nothing(make: Make) -> None:
    """It was begun, and the run ended before its line was written."""
    text = page_of(untrained(make(), spent=12)).text
    assert "Nothing was trained" not in text
    assert "For one record at one client: epsilon 0.76" in text
    assert "Model that was kept none" in text
    assert "Nothing was trained" not in page_of(untrained(make("older"), run="")).text
    assert "Nothing was trained" not in page_of(untrained(make("refused"), rounds=3)).text


def test_a_run_whose_budgets_were_spent_did_not_end_as_planned(make: Make) -> None:
    text = page_of(make(status="budget-exhausted")).text
    assert "ended as planned" not in text
    assert "This run ended after 3 rounds because budgets were spent, not because of results." in text


def test_a_run_that_was_killed_has_a_page_that_says_what_is_missing(make: Make) -> None:
    text = page_of(make(over=False)).text
    assert "not finished" in text
    assert "No site has stated anything" in text
    assert "Each client's own budget holds in any case: epsilon 3.00 or less." in text
    assert "a round that was begun since then is paid for in the ledgers" in text
    since = "what was spent since then is NOT included"
    assert f"This is as of round 3: {since}" in text
    assert f"This is as of round 3: {since}" in page_of(make("b", over=False), make("c")).text
    assert since not in page_of(make("e")).text


def test_where_no_epsilon_holds_no_budget_is_said_to(make: Make) -> None:
    """One client's data were trained without protection before: account and plan are infinite."""

    def infinite(summary: dict[str, Any]) -> None:
        for one in (summary, summary["clients"]["north"]):
            one.update(epsilon=None, planned_epsilon=None)

    text = page_of(change_summary(make(), infinite)).text
    assert "For one record at one client: no epsilon holds (it is infinite)" in text
    assert "holds in any case" not in text
    assert "must count the whole plan: epsilon infinite." in text


def test_what_was_spent_before_is_told_apart(make: Make) -> None:
    text = page_of(make(before=[Entry(0.1, 1.5, 30)])).text
    assert "According to their ledgers, the data of 2 clients had already spent before this run." in text
    unknown = "What had been spent before this run is not in its files"
    for older in (make("killed", over=False), make("older", run="")):
        assert unknown in page_of(older).text
        assert "Nothing had been spent" not in page_of(older).text
    plain = page_of(make("fresh")).text
    assert unknown not in plain
    assert "nothing had been spent on these data when this run began" in plain


def test_of_this_run_alone_it_is_for_the_same_person_as_the_whole(make: Make) -> None:
    """The sum of as many clients as the headline's."""
    spent: dict[str, Any] = {"before": [Entry(0.1, 1.5, 30)]}
    own = sorted(client.own_epsilon or 0.0 for client in read_run(make("one", **spent)).clients)
    for name, total, whom, more in (
        ("a", own[-1], "one record", {}),
        ("b", sum(own), "one person with a record at up to 2", {"federation": {"clients_per_person": 2}}),
    ):
        text = page_of(make(name, **spent, **more)).text
        assert f"This run alone costs at most epsilon {rounded_up(total)}, for {whom}" in text


def test_of_this_run_alone_nothing_is_said_where_one_clients_is_not_known(make: Make) -> None:
    folder = make(before=[Entry(0.1, 1.5, 30)])
    change_summary(folder, lambda summary: summary["clients"]["north"].update(accountant="of tomorrow"))
    assert "This run alone costs" not in page_of(folder).text


def test_a_site_that_states_more_than_the_server_recorded_is_named(make: Make) -> None:
    """The made-up statement says epsilon 1.00, the summary 0.75."""
    text = page_of(make()).text
    assert "2 clients state MORE than the server recorded, up to epsilon 1.00:" in text
    long_run = page_of(make("long", rounds=5)).text  # 1.25
    assert "state MORE" not in long_run
    of_another = page_of(make("other", signed=[statement(("north", "south"), run="18")])).text
    assert "state MORE" not in of_another


def test_the_headline_does_not_count_retired_accounts(make: Make) -> None:
    folder = make()
    assert "over all runs on these ledgers." in page_of(folder).text
    change_summary(folder, lambda summary: summary["clients"]["north"].update(retired=1))
    assert "over all runs on these ledgers, except accounts that were retired." in page_of(folder).text


def own_ledger(*clients: str) -> Stated:
    return statement(clients, one_run_ledger=True)


ALONE, ALL = "The ledger was made for this run only", "over all runs on these ledgers"
LEFT_OUT = "what other runs have spent on the same data is NOT in the epsilon and adds to it."


@pytest.mark.parametrize("over", [True, False])
def test_an_epsilon_of_a_ledger_that_was_made_for_the_run_says_so_wherever_it_says_what_counts(
    make: Make, over: bool
) -> None:
    """By the sites' statements; of a run that was killed before there were any, by how it was launched."""
    folder = make(signed=[own_ledger("north"), own_ledger("south")], over=over)
    if not over:
        folder.launch.write_text('engine = ""\nledgers = "ledgers"\none-run-ledger = true\n')
    html = render_page(folder)
    text = Page(html).text
    assert f"in this run. {ALONE}: what other runs on the same data have spent is not known and adds" in text
    assert "Epsilon of other runs on the same data not known: the ledger was made for this run only" in text
    assert f"each ledger was made for it alone, and {LEFT_OUT}" in text
    assert "a ledger that was made for this run alone knows of no other runs" in text
    assert html.count(">epsilon, over this run alone<") == 1
    for of_all in ("all runs", "same ledger", "Nothing had been spent", "the ledgers have it"):
        assert of_all not in html


def test_without_privacy_no_epsilon_is_said_to_be_over_this_run_alone(make: Make) -> None:
    text = page_of(make(private=False, signed=[own_ledger("north"), own_ledger("south")])).text
    assert "over this run alone" not in text
    assert "Epsilon none holds: it is infinite" in text


@pytest.mark.parametrize(
    ("clients", "data", "cut"),
    [(2, "digits", True), (1, "digits", False), (2, "csv:/data/{client}.csv", False)],
)
def test_parts_that_a_launch_has_cut_are_said_to_be_counted(
    make: Make, clients: int, data: str, cut: bool
) -> None:
    names = [str(number) for number in range(clients)]
    text = page_of(make(clients=names, settings={"data": data})).text
    assert ("This launch split one data set into parts and declared what it counted" in text) is cut
    assert ("except the declared numbers: this launch counted the records" in text) is cut
    assert ("No file shows whether a declared number is the exact count of the records." in text) is not cut


def test_where_nothing_was_released_no_round_is_said_to_be_paid_for(make: Make) -> None:
    folder = untrained(make(settings={"rounds": 5}), reason=INTERRUPTED)
    text = page_of(folder).text
    assert "This run was interrupted" in text
    assert "may have paid" not in text


def test_a_ledger_of_one_client_that_was_made_for_the_run_makes_no_other_so(make: Make) -> None:
    folder = make(signed=[own_ledger("north"), statement(("south",))])
    folder.launch.write_text('engine = ""\nledgers = "ledgers"\none-run-ledger = true\n')  # statements count
    text = page_of(folder).text
    assert f"{ALL}, 1 of which were made for this run alone" in text
    assert f"The ledgers of 1 client were made for this run alone: {LEFT_OUT}" in text
    assert "nothing had been spent on the other data when this run began" in text
    assert ALONE not in text
    another = page_of(make("b", signed=[statement(("north", "south"), run="18", one_run_ledger=True)])).text
    assert ALONE not in another
