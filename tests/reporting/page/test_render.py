"""The page as a whole: what stands in it, in which order, and that strangers' texts stay texts."""

import html
import re
import shutil
from itertools import pairwise
from typing import Any

import pytest

from fl_dp.errors import ConfigError
from fl_dp.kits.keys import fingerprint
from fl_dp.records import REFUTED, Entry
from fl_dp.reporting.console import rounded_up
from fl_dp.reporting.page.approval import write_approval
from fl_dp.reporting.page.digest import page_digest
from fl_dp.reporting.page.read import read_run
from fl_dp.reporting.page.render import render_page
from fl_dp.reporting.refuted import ADVICE, without_refutation
from fl_dp.reporting.reports import INTERRUPTED
from fl_dp.reporting.run_folder import RunFolder
from fl_dp.statements import Stated

from .conftest import Make, change_summary, statement
from .reading import Page
from .runs import NOBODY, untrained

HOSTILE = (
    r"$\frac$",
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "a\u202eb\x00\x1b[31m",
    "]]></desc><script>",
    "{{ 7919 * 7919 }}{% raw %}",
    "=HYPERLINK(1)",
    "#000001",
    "_hidden",
    "病院 😀 \ud800 e" + "\u0301" * 50,
)


def page_of(*folders: RunFolder) -> Page:
    return Page(render_page(folders))


def test_a_page_is_whole_and_loads_nothing(make: Make) -> None:
    html = render_page([make()])
    page = Page(html)
    assert page.open == []
    (policy,) = [one for one in page.all("meta") if one.get("http-equiv") == "Content-Security-Policy"]
    assert str(policy["content"]).startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:")
    assert not page.all("script")
    assert not page.all("link")
    assert not page.all("img")
    addresses = set(re.findall(r"https?://[^\"' <]+", html))
    assert addresses == {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}  # names, never loaded
    assert "url(#" in html or 'href="#' in html
    assert not re.search(r"url\((?!#)", html)


def test_title_and_footer_name_run_and_digest_whatever_it_is_called(make: Make) -> None:
    """Of a folder that was moved it is the name that config.toml has: it stays, and the digest covers it."""
    called = 'a"; } <b> \\9 \u202e'
    folder = make(settings={"out": f"/home/mallory/{called}"})
    page = render_page([folder])
    digest, shown = fingerprint(page_digest(folder)), called.replace("\u202e", "\\u202e")
    (title,) = re.findall("<title>(.*)</title>", page)
    assert html.unescape(title) == f"Run {shown}, SHA-256 {digest}"
    (foot,) = re.findall(r'@bottom-left \{ content: "([A-Za-z0-9\\]*)"; \}', page)
    read = re.sub(r"\\([0-9a-f]{6})", lambda found: chr(int(found[1], 16)), foot)
    assert read == f"Run {shown}\nSHA-256 {digest}"
    assert "mallory" not in page
    assert "<title>Run 17, " in render_page([make("older")])  # its files name no folder


def test_headings_are_in_order_and_every_section_has_one(make: Make) -> None:
    page = page_of(make())
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in page.tags:
        for named in str(attributes.get("aria-labelledby") or "").split():
            assert named in ids


def test_figures_and_tables_can_be_read_without_seeing_them(make: Make) -> None:
    page = page_of(make())
    figures = page.all("svg")
    assert len(figures) == 6
    assert all(one["role"] == "img" and one["aria-labelledby"] for one in figures)
    assert len(page.all("desc")) == len(figures)
    assert len(page.all("caption")) == len(page.all("table")) >= 7
    assert all(one["scope"] in ("row", "col") for one in page.all("th"))
    assert page.all("a")[0] == {"class": "skip", "href": "#main"}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_strangers_wrote_stays_text(make: Make, name: str) -> None:
    folder = make(clients=(name, "south"), reason=name, metrics={name: 0.5})
    if "\ud800" not in name:
        write_approval(folder, purpose=name, approver=name, operator=name)
    html = render_page([folder])
    page = Page(html)
    assert page.open == []
    assert html.encode()  # no lone surrogates
    assert not page.all("script")
    assert not page.all("img")
    assert not any(key.startswith("on") for _, attributes in page.tags for key in attributes)
    assert not re.search("[\x00-\x08\x0b-\x1f\u200e\u200f\u202a-\u202e\u2066-\u2069]", html)
    assert "62710561" not in page.text  # what a template would make of one of them
    assert (name in page.text) is not any(ord(one) > 0x2FF or ord(one) < 32 for one in name)


@pytest.mark.parametrize("name", [one for one in HOSTILE if one.isprintable()])
def test_several_runs_with_hostile_settings(make: Make, name: str) -> None:
    page = page_of(make("a", settings={"task": name}), make("b", settings={"task": "b"}))
    assert page.open == []
    assert not page.all("script")
    assert not page.all("img")


def test_the_same_files_give_the_same_bytes_wherever_they_lie(make: Make, tmp_path) -> None:
    folder = make()
    shutil.copytree(folder.path, tmp_path / "elsewhere")
    html = render_page([folder])
    assert html == render_page([RunFolder(tmp_path / "elsewhere")])
    assert str(tmp_path) not in html


def test_no_place_of_the_machine_is_shown(make: Make) -> None:
    places = {"data": "csv:/home/mallory/secret/{client}.csv", "out": "/srv/out", "data-root": "/srv/root"}
    text = page_of(
        make(settings={**places, "task": "/home/mallory/t.py:Mine", "schema": "C:\\mallory\\s.toml"})
    ).text
    assert "csv:{client}.csv" in text
    assert "t.py:Mine" in text
    for place in ("mallory", "/srv/", "secret"):
        assert place not in text


def test_words_of_the_guarantee(make: Make) -> None:
    text = page_of(make()).text
    assert "For one record at one client: epsilon 0.76, delta 0.00001" in text  # 0.751, rounded up
    assert "add or remove one record at one client" in text
    assert "group privacy" in text
    assert "1 client: the epsilons of all of them add up" in text
    assert "such as a risk that a habit brings" in text
    assert "The name of this mode: steady-rows." in text
    assert "stays released" in text
    assert "whole plan: epsilon 2.50" in text
    assert "NOT PRIVATE" not in text


def test_what_was_paid_under_a_refuted_assumption_says_so_for_each_client(make: Make) -> None:
    """A run of today, on accounts of which one has older rounds."""
    folder = make(federation={"arithmetic": REFUTED}, signed=[statement(["north"])])
    change_summary(folder, lambda summary: summary["clients"]["north"].update(arithmetic=REFUTED))
    page = render_page([folder])
    text = Page(page).text
    said = text.count(f"Steps on these data were {ADVICE}.")
    assert said == 2  # at the top, and at what is known of rounding
    assert "The name of this mode: assumed (refuted)." in text
    assert "One thing is assumed: what a record adds" in text  # of this run's own rounds
    assert "0.001 of the clipping bound" not in text
    assert text.count("pld assumed (refuted)") == text.count("pld steady-rows") == 1  # of each client
    assert text.count("0.75 (refuted)") == 1
    assert "(refuted)" not in without_refutation(page)


def test_what_is_signed_for_stands_on_the_page_itself(make: Make) -> None:
    """Conditions that not every run has are there only for those that have them."""
    always = (
        "ledger was kept: it was not deleted",
        "of each client is public",
        "Nobody looked for the settings",
        "own code",
    )
    at_times = ("The task's own code", "weights that training started from", "but for those under")
    plain = page_of(make())
    assert "docs/" not in plain.text
    assert all(words in plain.text for words in always)
    assert not any(words in plain.text for words in at_times)
    folder = make("own", settings={"start": "weights.pt"}, task="ab" * 32)
    change_summary(folder, lambda said: said["clients"]["north"].update(retired=1))
    assert all(words in page_of(folder).text for words in (*always, *at_times))


def test_persons_and_proven_arithmetic_have_words_of_their_own(make: Make) -> None:
    text = page_of(make(federation={"unit": "person", "arithmetic": "proven", "clients_per_person": 2})).text
    assert "add or remove one person with all records" in text
    assert "one person with data at up to 2 clients" in text
    assert "The name of this mode: proven." in text
    assert "k records of one person" not in text


def test_without_privacy_it_says_so_all_over(make: Make) -> None:
    text = page_of(make(private=False)).text
    assert text.count("NOT PRIVATE") >= 6
    for words in ("add or remove", "right with a probability", "epsilon 0", "Epsilon 0"):
        assert words not in text


def test_one_file_that_says_not_private_is_enough(make: Make) -> None:
    folder = make(settings={"privacy": "off"})  # while the summary claims that it was
    assert "NOT PRIVATE" in page_of(folder).text


def test_a_model_that_later_rounds_chose_carries_the_whole_plan(make: Make) -> None:
    text = page_of(make(model="best", model_round=2)).text
    assert "This model, of round 2, was chosen by what later rounds showed." in text
    assert "the best one, of round 2" in text


@pytest.mark.parametrize("changed", [NOBODY, {}])
def test_a_run_without_a_round_has_released_nothing(make: Make, changed: dict[str, object]) -> None:
    text = page_of(untrained(make(), **changed)).text
    assert "Nothing was trained: by this run's files, no model and no update was released." in text
    assert "epsilon infinite" not in text
    assert "Model that was kept none" in text
    assert "ended as planned" not in text
    assert ("Earlier runs, as these ledgers show them: epsilon 0.76" in text) is not bool(changed)


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
    assert "a round that was begun since is paid for in the ledgers" in text
    since = "what was spent since is NOT in it"
    assert f"After round 3: {since}" in text
    assert f"After round 3: {since}" in page_of(make("b", over=False), make("c")).text
    assert since not in page_of(make("e")).text


def test_where_no_epsilon_holds_no_budget_is_said_to(make: Make) -> None:
    """One client's data were trained without protection before: account and plan are infinite."""

    def infinite(summary: dict[str, Any]) -> None:
        for one in (summary, summary["clients"]["north"]):
            one.update(epsilon=None, planned_epsilon=None)

    text = page_of(change_summary(make(), infinite)).text
    assert "For one record at one client: no epsilon holds (it is infinite)" in text
    assert "holds in any case" not in text
    assert "has to count the whole plan: epsilon infinite." in text


def test_what_was_spent_before_is_told_apart(make: Make) -> None:
    text = page_of(make(before=[Entry(0.1, 1.5, 30)])).text
    assert "As their ledgers have it, the data of 2 clients had spent before this run." in text
    unknown = "What had been spent before this run is not in its files"
    for older in (make("killed", over=False), make("older", run="")):
        assert unknown in page_of(older).text
        assert "Nothing had been spent" not in page_of(older).text
    plain = page_of(make("fresh")).text
    assert unknown not in plain
    assert "Nothing had been spent on these data when this run began" in plain


def test_of_this_run_alone_it_is_for_the_same_person_as_the_whole(make: Make) -> None:
    """The sum of as many clients as the headline's."""
    spent: dict[str, Any] = {"before": [Entry(0.1, 1.5, 30)]}
    own = sorted(client.own_epsilon or 0.0 for client in read_run(make("one", **spent)).clients)
    for name, total, whom, more in (
        ("a", own[-1], "one record", {}),
        ("b", sum(own), "one person with a record at up to 2", {"federation": {"clients_per_person": 2}}),
    ):
        text = page_of(make(name, **spent, **more)).text
        assert f"Of this run alone it is {rounded_up(total)} at most, for {whom}" in text


def test_of_this_run_alone_nothing_is_said_where_one_clients_is_not_known(make: Make) -> None:
    folder = make(before=[Entry(0.1, 1.5, 30)])
    change_summary(folder, lambda summary: summary["clients"]["north"].update(accountant="of tomorrow"))
    assert "Of this run alone" not in page_of(folder).text


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
    assert "over all runs on these ledgers, but for accounts that were retired." in page_of(folder).text


def own_ledger(*clients: str) -> Stated:
    return statement(clients, one_run_ledger=True)


ALONE, ALL = "The ledger was made for this run only", "over all runs on these ledgers"
LEFT_OUT = "what other runs have spent on the same data is NOT in the epsilon, and adds to it."


@pytest.mark.parametrize("over", [True, False])
def test_an_epsilon_of_a_ledger_that_was_made_for_the_run_says_so_wherever_it_says_what_counts(
    make: Make, over: bool
) -> None:
    """By the sites' statements; of a run that was killed before there were any, by how it was launched."""
    folder = make(signed=[own_ledger("north"), own_ledger("south")], over=over)
    if not over:
        folder.launch.write_text('engine = ""\nledgers = "ledgers"\none-run-ledger = true\n')
    html = render_page([folder])
    text = Page(html).text
    assert f"in this run. {ALONE}: what other runs on the same data have spent is not known, and adds" in text
    assert "Epsilon of other runs on the same data not known: the ledger was made for this run only" in text
    assert f"each ledger was made for it alone, and {LEFT_OUT}" in text
    assert "a ledger that was made for this run alone knows of no others" in text
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
    assert ("This launch cut one data set into parts and declared what it counted" in text) is cut
    assert ("but for the declared numbers: this launch counted the records" in text) is cut
    assert (
        "No file shows whether a declared number was counted from the records exactly." in text
    ) is not cut


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
    assert "Nothing had been spent on the other data when this run began" in text
    assert ALONE not in text
    another = page_of(make("b", signed=[statement(("north", "south"), run="18", one_run_ledger=True)])).text
    assert ALONE not in another


def test_numbers_of_single_classes_are_not_shown(make: Make) -> None:
    text = page_of(make(metrics={"accuracy": 0.5, "accuracy-per-class[rare disease]": 0.125})).text
    assert "rare disease" not in text
    assert "0.125" not in text
    assert "1 numbers of single classes or subgroups are not shown" in text


def test_lines_to_fill_in_by_hand_until_somebody_has(make: Make) -> None:
    folder = make()
    assert page_of(folder).text.count("to be filled in by hand") == 9
    before = render_page([folder])
    write_approval(folder, purpose="Triage", approver="Dr. Ng")
    page = page_of(folder)
    assert page.text.count("to be filled in by hand") == 7
    assert "Dr. Ng" in page.text
    assert render_page([folder]) != before


def test_no_run_and_a_damaged_one_are_named(tmp_path, make: Make) -> None:
    with pytest.raises(ConfigError, match="holds no run"):
        render_page([RunFolder(tmp_path)])
    folder = make()
    folder.statements.write_text('{"statements": [1]}')
    with pytest.raises(ConfigError, match=r"statements\.json: is damaged"):
        render_page([folder])
