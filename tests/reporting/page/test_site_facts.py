"""Who has signed what: a signature counts for its key alone, and for this run and model alone."""

import dataclasses

import pytest

from fl_dp.kits.keys import fingerprint
from fl_dp.kits.signed import Signature
from fl_dp.reporting.page.overview import stated, verdict
from fl_dp.reporting.page.read import read_run
from fl_dp.reporting.page.render import render_page
from fl_dp.reporting.vouched import SIGNED, UNSIGNED
from fl_dp.statements import Stated

from .conftest import Make, change_summary, statement
from .reading import Page
from .runs import served, signed


def test_a_signature_that_fits_is_said_with_its_key(make: Make) -> None:
    said = [signed(statement(["north"])), statement(["south"])]
    folder = served(make(signed=said))
    run = read_run(folder)
    assert [site.signed for site in run.sites] == [Signature.HOLDS, Signature.NONE]
    assert stated(run).startswith("2 statements: 1 signed by the key beside it.")
    text = Page(render_page(folder)).text
    assert f"by the key with the fingerprint {fingerprint(said[0].key)}" in text
    assert "ask the site, for example by telephone" in text
    assert "a statement signed by nobody" in text


def test_the_first_sheet_says_how_many_have_signed_and_whether_budgets_were_kept(make: Make) -> None:
    folder = served(make(rounds=5, signed=[signed(statement(["north"])), statement(["south"])]))
    one_of_two = (
        "What the data have spent is signed for 1 of 2 clients, each by a key whose fingerprint is under "
        "“Statements of the sites”."
    )
    kept = (
        "No client's epsilon of all runs in its ledger together is above its budget, its own site's limit "
        "for one record: epsilon 3.00"
    )
    assert verdict(read_run(folder)) == f"{kept} at delta 0.00001. {one_of_two}"
    change_summary(folder, lambda said: said["clients"]["north"].update(budget=2.0))
    assert verdict(read_run(folder)) == f"{kept} or less at delta 0.00001. {one_of_two}"
    change_summary(folder, lambda said: said["clients"]["north"].update(budget=None))
    unknown = "The budget of 1 client is not known; no other client's epsilon is above its budget. "
    assert verdict(read_run(folder)) == unknown + one_of_two
    change_summary(folder, lambda said: said["clients"]["south"].update(budget=1.0))
    assert verdict(read_run(folder)).startswith("The epsilon of 1 client is ABOVE its budget.")
    assert verdict(read_run(make("killed", over=False))).startswith(
        "After round 3: No client's epsilon of all runs in its ledger together is above"
    )
    assert verdict(read_run(make("off", private=False))).startswith(
        "NOT PRIVATE: no epsilon holds. No statement of what the data have spent has a"
    )
    folder.launch.write_text('engine = "ray"\n')
    assert "Nobody has signed: the clients of a simulation have no keys." in verdict(read_run(folder))


@pytest.mark.parametrize("change", ["key", "text", "signature", "no hex"])
def test_a_signature_that_does_not_fit_is_said(make: Make, change: str) -> None:
    good, other = signed(statement(["north"])), signed(statement(["north"], commitment="00" * 32))
    bad = (
        dataclasses.replace(good, signature="zz")
        if change == "no hex"
        else dataclasses.replace(good, **{change: getattr(other, change)})
    )
    folder = make(clients=["north"], signed=[bad])
    assert read_run(folder).sites[0].signed is Signature.WRONG
    assert "1 statement cannot be relied on" in Page(render_page(folder)).text
    assert verdict(read_run(folder)).endswith("Statements of sites do NOT agree with the run, see below.")
    assert "WRONG SIGNATURE" in Page(render_page(folder)).text


@pytest.mark.parametrize(
    ("said", "summary"),
    [
        ({"run": "18"}, {}),
        ({"weights": "00" * 32}, {}),
        ({}, {"digests": {}}),
    ],  # of no digest none is vouched for
)
def test_a_statement_of_another_run_or_model_is_said(
    make: Make, said: dict[str, str], summary: dict[str, object]
) -> None:
    folder = make(clients=["north"], signed=[signed(statement(["north"], **said))], **summary)
    text = Page(render_page(folder)).text
    assert f"NOT OF THIS RUN: it speaks of another {'' if 'run' in said else 'model'}" in text
    assert "1 statement: no valid signature for this run and model." in text
    assert "a statement, signed" not in text


def test_a_statement_that_cannot_be_read_is_no_end_of_the_page(make: Make) -> None:
    folder = make(clients=["north"], signed=[Stated("{}")])
    text = Page(render_page(folder)).text
    assert "no readable statement" in text
    assert "the server alone" in text


def test_beside_the_approval_it_says_whose_word_it_is(make: Make) -> None:
    """And beside the reason of a run that failed."""
    folder = make(status="failed", reason="", signed=[signed(statement(["north", "south"]))])
    change_summary(folder, lambda summary: summary.update(reason="by order of the board"))
    text = " ".join(Page(render_page(folder)).text.split())
    assert "Whoever wrote its folder says: by order of the board" in text
    after = text[text.index("Purpose and approval") : text.index("Results")]
    assert "is listed under “Signed by no site”, as the word of whoever wrote the run's folder" in after
    later = after[after.index("Data sets and the commitments of their sites") :]
    assert "Signed by no site On this page it is the word of whoever wrote the run's folder:" in later
    assert all(words in later for words in UNSIGNED)
    assert all(words in text for words in SIGNED)
    unsigned = Page(render_page(make("unsigned"))).text
    assert "No site has signed anything: this page is the word of whoever" in unsigned
    assert not any(words in unsigned for words in (*UNSIGNED, "A site has signed", "by telephone"))
