"""Each sentence that not every page has stands where it is true, and not where it is false."""

import pytest

from fl_dp.reporting.page import render

from .conftest import maker
from .reading import Page
from .runs import RUNS

MOST_WORDS = 900  # of a page, without the rows of its tables

# By a sentence: a run of which it is true, and one of which it is false.
FOLLOWS = {
    # The guarantee in a line, and what it counts.
    "Nothing was trained: according to this run's files": ("no round", "plain"),
    "Nothing was trained, by this run's files.": ("unprotected, no round", "unprotected"),
    "Nothing was spent in this run": ("of this run, all declined", "plain"),
    "NOT PRIVATE: trained without protection.": ("unprotected", "plain"),
    "no epsilon holds (it is infinite)": ("infinite", "plain"),
    "The ledger was made for this run only: what other runs on the same data have spent is not known": (
        "own ledgers",
        "one own ledger",
    ),
    "The ledgers show no other runs on the same data": ("plain", "of this run, and others"),
    "on the same data, as the sites claim": ("served", "plain"),
    "Together with what the ledgers show of other runs": ("of this run, and others", "plain"),
    "ledgers know of this run only": ("one own ledger", "plain"),
    "No file says whether all ledgers know of other runs": ("of this run, silent", "plain"),
    "If results decided when it stopped, count epsilon": ("interrupted", "plain"),
    "what was spent since then is NOT included": ("killed", "plain"),
    "had spent is NOT in it": ("retired", "plain"),
    # How it ended.
    "This run has no summary": ("killed", "plain"),
    "This run ended early": ("budget spent", "plain"),
    "This run was interrupted": ("interrupted", "failed"),
    "This run has failed.": ("failed", "plain"),
    "Clients may have paid for one more round, not confirmed; epsilon counts it": ("interrupted", "no round"),
    "One more round was begun and paid for; epsilon counts it": ("of this run, interrupted", "failed"),
    "Whoever wrote its folder says: by order": ("failed", "plain"),
    # Budgets and signatures.
    "is ABOVE its budget": ("above the budget", "plain"),
    "of all runs in its ledger, is above its budget": ("plain", "own ledgers"),
    "No client's epsilon of this run is above its budget": ("own ledgers", "plain"),
    "Nobody has signed: the clients of a simulation have no keys": ("simulated", "plain"),
    "Nobody has stated what the data have spent": ("silent", "plain"),
    "No statement has a valid signature": ("plain", "served"),
    "What the data have spent is signed for 2 of 2 clients": ("served", "one signed"),
    "by keys of this launch alone": ("one signed", "served"),
    "These keys were made for this launch alone, and tie nothing to a site": ("one signed", "served"),
    "Ask the site for its key's fingerprint": ("served", "one signed"),
    "cannot be relied on: WRONG SIGNATURE, or of another run": ("forged", "plain"),
    "NOT OF THIS RUN: it speaks of another": ("of another run", "plain"),
    "state MORE than the server recorded": ("plain", "silent"),
    "up to epsilon infinite": ("states none", "plain"),
    # What is promised, to whom, and what is assumed.
    "add or remove one record at one client": ("plain", "persons"),
    "add or remove one person with all records": ("persons", "plain"),
    "individual records may be inferred from it": ("unprotected", "plain"),
    "is right with a probability of at most": ("plain", "infinite"),
    "That is almost no limit": ("much", "plain"),
    "and no client's part of a sum,": ("masked sums", "plain"),
    "Everybody but the client itself, including a server that chooses": ("masked sums", "open sums"),
    "Those who see no more than the sums": ("simulated sums", "masked sums"),
    "and has one id": ("persons", "plain"),
    "One launch held all clients' records": ("simulated", "served"),
    "the server's own test data.": ("plain", "unmeasured"),
    "This model was chosen knowing later rounds": ("best", "plain"),
    "within the epsilon above": ("plain", "unprotected"),
    "nothing limits what can be learnt from it": ("unprotected", "plain"),
    "declared its records public": ("public", "plain"),
    "The epsilon of this run is infinite": ("unprotected", "unprotected, no round"),
    "Private training on the same data is declined from then on": ("unprotected", "unprotected, own ledgers"),
    "no other ledger knows of it": ("unprotected, own ledgers", "unprotected"),
    "What is assumed": ("plain", "unprotected"),
    "This launch counted the records of each part": ("plain", "served"),
    "keeps no memory of earlier ones": ("persons", "plain"),
    "the same bits whatever": ("plain", "persons"),
    "The task's own code computes": ("of other code", "plain"),
    "The weights that training started from": ("weights of a file", "plain"),
    "they were fixed without looking at results": ("two mechanisms", "plain"),
    # Secure sums.
    "If the assumption behind secure sums fails: epsilon 7.00": ("masked sums", "open sums"),
    "No masks were used: whoever ran this saw each client's part; against them no useful epsilon holds": (
        "open sums",
        "simulated sums",
    ),
    "if the assumption fails": ("masked sums", "plain"),
    "against anyone who sees the parts": ("open sums", "masked sums"),
    "noise multiplier of the sum": ("masked sums", "plain"),
    # Data, results, settings.
    "csv. NOT what sites have stated: digits": ("called otherwise", "plain"),
    "Curves and confusion are hidden": ("of few", "answered"),
    "Curves and confusion are not drawn": ("no numbers", "answered"),
    "Hidden: figures of fewer than 20 test records": ("by class", "plain"),
    "The sites' test records are paid for separately": ("evaluated at sites", "plain"),
    "it is not confirmed that the site has paid": ("evaluated at sites", "plain"),
    "that it was not chosen on": ("best", "plain"),
    "Other runs are as the site claims": ("served", "plain"),
    "each site's own limit": ("served", "plain"),
    "the limit set by whoever started this launch": ("plain", "served"),
    "planned, not run": ("no round", "plain"),
    "not used": ("unprotected", "plain"),
    "on a separate sheet": ("many sites", "plain"),
}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Page]:
    """Of each kind of run its page, without pictures."""
    with pytest.MonkeyPatch.context() as without:
        without.setattr(render, "_figures", lambda run: [])
        folders = {name: made(maker(tmp_path_factory.mktemp("run"))) for name, made in RUNS.items()}
        return {name: Page(render.render_page(folder)) for name, folder in folders.items()}


@pytest.mark.parametrize("sentence", FOLLOWS)
def test_a_sentence_stands_where_it_is_true_and_not_where_it_is_false(
    sentence: str, pages: dict[str, Page]
) -> None:
    true, false = FOLLOWS[sentence]
    assert sentence in pages[true].text
    assert sentence not in pages[false].text


def test_no_page_has_more_words_or_tables_than_a_reader_reads(pages: dict[str, Page]) -> None:
    words = {name: len(page.told.split()) for name, page in pages.items()}
    assert {name: count for name, count in words.items() if count > MOST_WORDS} == {}
    assert max(len(page.all("table")) for page in pages.values()) <= 6
