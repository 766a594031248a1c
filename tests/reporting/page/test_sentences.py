"""Every sentence of a page follows from the run: each stands on the page of one, and not on that of another.

Whoever adds a sentence to the page adds it here, with both.
"""

from __future__ import annotations

import pytest

from fl_dp.reporting.page import render

from .conftest import maker
from .reading import Page
from .runs import RUNS
from .sentences import sentences

# What a sentence says, the run in which it stands, and one in which it would be false.
FOLLOWS = {
    # How it ended.
    "This run has no summary: it is still going on, or was killed.": ("killed", "interrupted"),
    "This run was interrupted: Ctrl-C or a signal ended it after": ("interrupted", "failed"),
    "This run has failed.": ("failed", "interrupted"),
    "rounds: too few clients had room for another round in their": ("budget spent", "failed"),
    "Clients may have paid for one more round": ("interrupted", "of this run, interrupted"),
    "One more round was begun and paid for": ("of this run, interrupted", "interrupted"),
    ". fl-dp ledger show prints what a client has paid, according to its": ("interrupted", "plain"),
    "finished, 1 begun and paid for;": ("of this run, interrupted", "interrupted"),
    "was paid; if results decided when it stopped, epsilon": ("interrupted", "budget spent"),
    "If somebody stopped the run, or chose the model, because of its results": ("plain", "unprotected"),
    "; the epsilon on this page counts it": ("interrupted", "unprotected, interrupted"),
    "Whoever wrote its folder says:": ("failed", "killed"),
    "), perhaps because of its results.": ("interrupted", "killed"),
    "because budgets were spent, not because of results.": ("budget spent", "failed"),
    "This run ended as planned.": ("plain", "interrupted"),
    "It is not known how this run will end, or whether its results decide": ("killed", "plain"),
    ", was chosen knowing the later rounds.": ("best", "average"),
    "Each client's own budget holds in any case: epsilon": ("no plan", "below an old budget"),
    "A server may decide from what it sees whether to go on: against that": ("best", "unprotected"),
    # What was trained, how, and what is left of it.
    "No round was run, and nothing was added to any account:": ("no round", "paid, no round"),
    "No round was run and no client had registered: there is no model": ("nobody came", "no round"),
    "Nothing was spent in this run: according to its files": ("of this run, all declined", "of this run"),
    "Nothing: no client has trained in this run, and none has": ("of this run, all declined", "of this run"),
    "Nothing was trained: according to this run's files, no model and no": ("no round", "paid, no round"),
    ": no protection was asked for. Nothing was trained": ("unprotected, no round", "unprotected"),
    ": trained without protection. No epsilon holds.": ("unprotected", "unprotected, no round"),
    "None: NOT PRIVATE. The model was trained without protection": ("unprotected", "unprotected, no round"),
    "Whoever started this launch allowed this for every client": ("unprotected", "unprotected, served"),
    "Every client that took part allowed this in its own settings": ("unprotected, served", "unprotected"),
    "A private run on the same records does not undo it: publishing": ("unprotected", "plain"),
    "From then on, private training on the same data is": ("unprotected", "unprotected, own ledgers"),
    "no other ledger knows of it, and private training": ("unprotected, own ledgers", "unprotected"),
    "none holds: it is infinite": ("unprotected", "plain"),
    "were not used, and are as protected as before.": ("unprotected, one absent", "unprotected"),
    "none: there were no clients": ("nobody came", "no round"),
    "the initial one: no round has changed it": ("all lost", "plain"),
    "the moving average of the rounds' models": ("average", "best"),
    "Best constant prediction, the same for all test records": ("a constant", "plain"),
    "the best one, of round": ("best", "average"),
    "the half of the server's test data that it was not chosen on": ("best", "plain"),
    ", on the server's test data": ("plain", "best"),
    "simulated: one launch ran all clients": ("simulated", "served"),
    "a server and a separate process for each client, all started on one": ("plain", "served"),
    "a server; the files do not say who started the clients": ("served", "plain"),
    "This run was simulated: one launch held all clients' records": ("simulated", "served"),
    "This run's server and clients were on one machine": ("plain", "served"),
    "all of it is built in": ("plain", "killed, with a task"),
    "Why clients did not train": ("declined", "plain"),
    "What each client's data have spent: epsilon of this run": ("plain", "nobody came"),
    "Noise, sample rate, batch and steps of each client": ("plain", "nobody came"),
    "if all planned rounds run": ("plain", "nobody came"),
    "sample rate (share of the": ("plain", "nobody came"),
    "steps in all: those of this run, and those of others as its": ("plain", "nobody came"),
    # Whose data, by whose word.
    ", according to the server's operator alone": ("silent", "plain"),
    "stated, but signed by nobody": ("plain", "served"),
    "by the key beside it.": ("served", "silent"),
    "no valid signature for this run and model.": ("plain", "served"),
    "signed by the key beside its statement": ("served", "plain"),
    "by the key with the fingerprint": ("served", "plain"),
    "No site has stated anything. Sizes and epsilons": ("silent", "plain"),
    "The clients of a simulation have no keys.": ("simulated", "served"),
    "cannot be relied on, see below.": ("forged", "served"),
    "WRONG: the signature is not of the key": ("forged", "served"),
    "too low for them. Another run may have used their data": ("plain", "of another run"),
    "the figures at the top are": ("plain", "of this run"),
    "A commitment fixes the state of a ledger at the end": ("plain", "silent"),
    ". The signature was made before this page existed, and the site": ("served", "plain"),
    "and to each commitment below": ("plain", "silent"),
    ", except the declared numbers: this launch counted the": ("plain", "served"),
    "s of each part, and no guarantee covers them": ("plain", "served"),
    ", unless a site has counted what it declared": ("served", "plain"),
    "A valid signature does not show that the key is the site's own": ("served", "one signed"),
    "compare the key with the roster.": ("served", "one signed"),
    ", and whose the keys are": ("served", "one signed"),
    ", which was made for this launch alone": ("one signed", "served"),
    "Its key was made for this launch alone, on the launch's own machine": ("one signed", "served"),
    "Signed by no site": ("one signed", "forged"),
    "What no site has signed is listed under": ("one signed", "forged"),
    "On this page it is the word of whoever wrote": ("one signed", "forged"),
    "Lines of the other sites: continued on sheet 2.": ("many sites", "many clients"),
    "Purpose and approval, continued from sheet 1": ("many sites", "many clients"),
    "How good the model is": ("unmeasured", "plain"),
    "No site has signed anything": ("silent", "forged"),
    "No signature below holds for this run and model": ("forged", "silent"),
    ": this page is the word of whoever wrote": ("forged", "one signed"),
    ", before the run ended on": ("approved early", "approved"),
    "Columns, as the schema declares them in public": ("called otherwise", "plain"),
    "Names of what is predicted": ("of a task", "plain"),
    "Records of one person that count in a step": ("persons", "plain"),
    "more rows are not on this page;": ("many clients", "plain"),
    "writes all of them.": ("many clients", "plain"),
    # What was measured.
    "The server's own test data: the model is measured on them": ("plain", "unmeasured"),
    "Label accuracy of each subgroup": ("by subgroup", "by class"),
    "Mean absolute error of each subgroup": ("by subgroup", "by class"),
    "Recall of the second class in each subgroup": ("of two classes", "by subgroup"),
    "Selection rate, the share predicted to be of the second class, in": ("of two classes", "by subgroup"),
    "the largest shown minus the smallest": ("of two classes", "by subgroup"),
    "Hidden: a class or subgroup with fewer than": ("by class", "by class, of old"),
    "test records, and others from which somebody could work it out.": ("by class", "by class, of old"),
    "of the accuracy: chance alone moves small groups": ("by class", "by class, of old"),
    "numbers of single classes or subgroups are not shown: it is not known": ("by class, of old", "by class"),
    "must stay hidden.": ("by class, of old", "by class"),
    # What is promised to whom.
    "Differential privacy, add or remove one record at one client": ("plain", "persons"),
    "Differential privacy, add or remove one person with all records": ("persons", "plain"),
    "The unit is one record. The promise compares two data sets": ("plain", "persons"),
    "called neighbours. They differ in all records of one person": ("persons", "plain"),
    "Several records of one person at a client: they are protected less": ("plain", "persons"),
    "one record (not one person)": ("plain", "persons"),
    "There was one client, and they are its values.": ("one client", "plain"),
    "Each is the largest among the clients. The tables below": ("two deltas", "plain"),
    "Both are those of the client with the largest epsilon.": ("plain", "two deltas"),
    "This is about somebody who has seen": ("of this run", "plain"),
    "no client's part of a sum": ("masked sums", "plain"),
    "what was spent has no finite epsilon.": ("infinite", "plain"),
    "no epsilon holds (it is infinite)": ("infinite", "plain"),
    "How much, and for whom": ("plain", "unprotected"),
    ", and 50 % is a blind guess. The formula is": ("plain", "infinite"),
    "An infinite epsilon does not limit what can be found out.": ("infinite", "plain"),
    "That is almost no limit.": ("much", "plain"),
    "stays within the epsilon and delta above, also afterwards.": ("plain", "infinite"),
    "Nothing limits what can be learnt about somebody": ("infinite", "plain"),
    "A person who withdraws takes part in no later round": ("unprotected", "nobody came"),
    "but the client itself, before, during and after the run. That includes": ("plain", "unprotected"),
    "That a client takes part, in which rounds, when it answers": ("plain", "unprotected"),
    "s of each client, the shape of a record, classes, settings.": ("plain", "unprotected"),
    ", such as a risk that a habit brings: they are what training is for": ("plain", "unprotected"),
    ": the epsilons of all these clients add up.": ("plain", "unprotected"),
    "Whatever is on a client's own machine: logs, ledger, memory.": ("plain", "unprotected"),
    # What was spent, before and since.
    "All runs on these data": ("plain", "no round"),
    "The epsilon above counts each account in full: all that": ("plain", "of this run"),
    "what other runs have spent on the same data is NOT in the epsilon": ("own ledgers", "plain"),
    "each ledger was made for it alone": ("own ledgers", "one own ledger"),
    "The ledger was made for this run only: what other runs on the same": ("own ledgers", "one own ledger"),
    "Epsilon of other runs on the same data": ("own ledgers", "one own ledger"),
    ": the ledger was made for this run only": ("own ledgers", "one own ledger"),
    "were made for this run alone:": ("one own ledger", "own ledgers"),
    "of which were made for this run alone": ("one own ledger", "own ledgers"),
    "; a ledger that was made for this run alone knows of no other runs": ("own ledgers", "plain"),
    "Earlier runs in these ledgers: epsilon": ("no round", "nobody came"),
    "Earlier runs in these ledgers: no epsilon holds for what": ("no round, infinite", "no round"),
    "According to their ledgers, nothing had been spent on": ("plain", "retired"),
    "According to their ledgers, the data of": ("spent before", "plain"),
    "This run alone costs at most epsilon": ("spent before", "plain"),
    "What had been spent before this run is not in its files": ("of an old version", "plain"),
    ", except accounts that were retired": ("retired", "plain"),
    "accounts were retired: what these had spent is NOT in": ("retired", "plain"),
    ". What the same data spend in other runs is added to it.": ("of this run", "plain"),
    "in this run.": ("of this run", "plain"),
    "The ledgers show no other runs on the same data": ("of this run", "of this run, and others"),
    "Together with what the ledgers show of other runs": ("of this run, and others", "of this run"),
    "Epsilon, this run and others in the ledgers": ("of this run", "own ledgers"),
    "(no file says whether all ledgers know of other runs)": ("of this run, silent", "of this run"),
    "ledgers know of this run only)": ("of this run, one own ledger", "of this run"),
    ": that is its site's claim, which no server can check": ("of this run, served", "of this run"),
    "The table of clients has what the ledgers show of other runs.": ("of this run, no round", "no round"),
    "The epsilon above is what this run has cost, computed by the server": ("of this run", "plain"),
    ": what was spent since then is NOT included.": ("killed", "interrupted"),
    ". This run has no summary: a round that was begun since": ("killed", "interrupted"),
    # What is assumed.
    ". Whoever signs for the guarantee assumes that they are met: no file": ("plain", "unprotected"),
    "Whoever signs assumes that the conditions under": ("plain", "unprotected"),
    "Nobody tuned the settings by training on the same": ("plain", "unprotected"),
    "No earlier run on these records decided a setting; each ledger here": ("own ledgers", "plain"),
    "set a budget, or retired an account, because of results.": ("plain", "unprotected"),
    "Each site has kept its ledger": ("served", "plain"),
    "Each client's ledger was kept": ("plain", "served"),
    ": it was not deleted, not set back to an older copy, and no": ("plain", "unprotected"),
    "s that each client declared is public. No file shows whether": ("served", "plain"),
    "s of each client is public. This launch split one data set into parts": ("plain", "served"),
    "The shape of a record, the classes, the settings, and the range": ("plain", "unprotected"),
    "ran fl_dp's own code, unchanged.": ("plain", "unprotected"),
    "system are unpredictable, the ciphers and hashes that fl_dp uses": ("plain", "unprotected"),
    "fl_dp tests this when a client starts; no file of this run shows": ("plain", "nothing paid"),
    "If the model draws its own random numbers (dropout)": ("plain", "unprotected"),
    "The task's own code, whose identity is given below": ("of other code", "plain"),
    "The weights that training started from were not made": ("weights of a file", "plain"),
    "Each record exists once: in one data set, at one client.": ("plain", "unprotected"),
    "hold more than one sample rate or noise multiplier.": ("two mechanisms", "plain"),
    "No account has paid for a step: nothing was added up": ("nothing paid", "plain"),
    "Each record had its own pass, so the rounding error has a proven": ("persons", "nothing paid"),
    "The rounding error of a sum of clipped gradients has a proven bound": ("plain", "persons"),
    # What its files say of budgets and signatures.
    "of all runs in its ledger together": ("plain", "own ledgers"),
    "of this run, the only one that its ledger knows,": ("own ledgers", "plain"),
    "the limit set by whoever started this launch": ("plain", "served"),
    "and one that no epsilon holds": ("states none", "plain"),
    "is ABOVE its budget.": ("below an old budget", "plain"),
    "; no other client's epsilon is above its budget.": ("one budget", "no budget"),
    "The files name no budget.": ("no budget", "plain"),
    ": no epsilon holds.": ("unprotected", "plain"),
    ", each by a key whose fingerprint is under": ("served", "simulated"),
    "No statement of what the data have spent has a valid signature.": ("plain", "silent"),
    "Nobody has stated what the data have spent.": ("silent", "plain"),
    "Nobody has signed: the clients of a simulation have no keys.": ("simulated", "served"),
    "Statements of sites do NOT agree with the run, see below.": ("forged", "silent"),
    # Metrics from the sites' own test records.
    "These test records stay at their sites, and are never trained.": ("evaluated at sites", "plain"),
    "that a site has in both its test and its training records has spent": ("evaluated at sites", "plain"),
    "An interval counts the noise and that the records are a sample,": ("evaluated at sites", "plain"),
    "The model that was kept, of round": ("best at sites", "evaluated at sites"),
    ", had the least log loss of all that were measured": ("best at sites", "evaluated at sites"),
    "Each site sent a noised histogram of the model's": ("evaluated at sites", "evaluated in a sum"),
    ", with a share of the noise, paid for by an account": ("evaluated in a sum", "evaluated at sites"),
    "No masks hid the histograms of this sum.": ("evaluated in an open sum", "evaluated in a sum"),
    "into a secure sum, paid for by an account of its own; the sum is lost:": (
        "evaluated in a lost sum", "evaluated in a sum"
    ),
    "The sites' accounts of test records": ("evaluated at sites", "plain"),
    "Metrics from the sites' own test records, after round": ("evaluated at sites", "plain"),
    # What was answered to test records.
    "Curves and confusion on the server's test data are hidden:": ("of few", "answered"),
    "There are no curves: some scores of the server's test data are not finite.": ("no numbers", "answered"),
    # Secure sums.
    "no useful epsilon holds": ("open sums", "masked sums"),
    "If the assumption behind secure sums fails": ("masked sums", "plain"),
    "If the assumption behind secure sums fails: epsilon": ("masked sums", "plain"),
    ". It assumes that no more clients in a sum collude with the server": ("masked sums", "plain"),
    ", and then only a client's own share protects it.": ("masked sums", "plain"),
    "A person has records at 1 client at most.": ("persons", "plain"),
    "Of secure sums it sees only the sums": ("masked sums", "simulated sums"),
    "In this run no mask hid a client's part of a sum from the server:": ("simulated sums", "masked sums"),
    ": whoever ran this saw each client's part; against them": ("open sums", "masked sums"),
    "The run was simulated, masks and all": ("simulated sums", "open sums"),
    "against anyone who sees the parts": ("open sums", "masked sums"),
    "Against anyone who sees the parts of the sums": ("open sums", "masked sums"),
    "somebody sees the parts, as whoever ran this could": ("open sums", "masked sums"),
    "This run was simulated: its masks hid no part": ("simulated sums", "open sums"),
    "no useful epsilon holds (none: it is infinite, or above": ("open sums", "masked sums"),
    "No masks hid the parts of this run's sums": ("open sums", "masked sums"),
}  # fmt: skip

# What the code puts together from several pieces, and what is too short for a sentence: with both cases, too.
JOINED = {
    "for another round in their own sites' budgets, or in the run's": (
        "budget spent at sites", "budget spent"
    ),
    "none: nothing was trained": ("no round", "paid, no round"),
    "what was to run": ("no round", "paid, no round"),
    ": planned, not run": ("no round", "paid, no round"),
    "The epsilon of this run is infinite.": ("unprotected", "unprotected, no round"),
    "not used": ("unprotected", "plain"),
    "not known; the setting says": ("killed, with a task", "of a task"),
    "and those of others as its site claims": ("served", "plain"),
    "epsilon of this run, of other runs as its site claims, and of both": ("served", "plain"),
    "the budget is its own site's limit for both": ("served", "plain"),
    "not known; the setting says digits, according to": ("killed, with a task", "of a task"),
    "1 statement: signed by the key beside it.": ("served", "one signed, one not"),
    "2 statements: both are signed, each by the key beside it.": ("two signed", "served"),
    "2 statements: 1 signed by the key beside it.": ("one signed, one not", "served"),
    "and to the model's weights": ("silent", "no round"),
    "seen this run alone. If": ("of this run", "masked sums"),
    "from what was released stays within the epsilon and delta above": ("plain", "of this run"),
    "from what this run has released stays within the epsilon and delta": ("of this run", "plain"),
    "other runs on the same data, as the sites claim": ("of this run, served", "of this run"),
    "Nobody set a budget, or retired an account": ("plain", "served"),
    "No site's operator set a budget, or retired an account": ("served", "plain"),
    "the guarantee does not cover it.": ("served", "plain"),
    "Each site ran fl_dp's own code, unchanged.": ("served", "plain"),
    "The random numbers of each site's system": ("served", "plain"),
    "of all runs in its ledger together is above its budget": ("plain", "below an old budget"),
    "is above its budget, its own site's limit for": ("served", "plain"),
    "Epsilon, if the assumption behind secure sums fails": ("masked sums", "plain"),
    "No masks were used": ("open sums", "simulated sums"),
    "Epsilon, against anyone who sees the parts of the sums": ("open sums", "masked sums"),
    "against them no useful epsilon holds": ("open sums", "simulated sums"),
    "No useful epsilon holds against everybody but the client itself": ("open sums", "simulated sums"),
    "Epsilon 7.00 holds against everybody but the client itself": ("simulated sums", "masked sums"),
    "The guarantee holds against everybody but the client itself": ("masked sums", "open sums"),
    "noise multiplier of the sum": ("masked sums", "plain"),
    ", different for each client": ("a noise each", "plain"),
    ", on a separate sheet": ("many sites", "many clients"),
    "the worst shown": ("by class", "by class, of old"),
    "This mode is called": ("plain", "nothing paid"),
    "No useful epsilon holds": ("open sums", "simulated sums"),
}  # fmt: skip

# Of the page of several runs, and of the card beside a model.
ELSEWHERE = (
    "the digest of each run: in the last table,",
    "as each ledger has it",
    "Assumptions and theorems: docs/privacy.md and",
)
# Headings, names of rows, and what is true of any page: of these there is no run in which they are false.
OF_ANY_RUN = (
    "Report of the federated training run",
    "According to the files of the run:",
    "says whether these files agree with each other",
    ". Each printed sheet shows it. What a site allowed before the run",
    ") is in its own folder and not on this page.",
    "What fl-dp verify said about these files",
    "What was trained, by whom and when",
    "As the server's operator calls them",
    "Data sets and the commitments of their sites",
    "Declared public: nothing here comes from a record",
    ". What no site has signed is the word of the server's operator.",
    "Operated by (server and sites)",
    "Kept until, or for how long",
    "to be filled in by hand",
    "The digest ties this page to the files of the run",
    "Clipping bound on the length of one",
    "Seed of noise, batches and client sampling",
    "Identity of the task's code",
    ". This page was made from the files of the run alone; it loads nothing and runs no script.",
)


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Of each kind of run the text of its page, without pictures, whose texts read out their tables."""
    with pytest.MonkeyPatch.context() as without:
        without.setattr(render, "_figures", lambda run: [])
        folders = {name: made(maker(tmp_path_factory.mktemp("run"))) for name, made in RUNS.items()}
        return {name: Page(render.render_page([folder])).text for name, folder in folders.items()}


@pytest.mark.parametrize("sentence", FOLLOWS | JOINED)
def test_a_sentence_stands_where_it_is_true_and_not_where_it_is_false(
    sentence: str, texts: dict[str, str]
) -> None:
    true, false = (FOLLOWS | JOINED)[sentence]
    assert sentence in texts[true]
    assert sentence not in texts[false]


def test_every_sentence_of_the_code_has_both_cases(texts: dict[str, str]) -> None:
    found = sentences()
    known = (*FOLLOWS, *OF_ANY_RUN, *ELSEWHERE)
    assert [text for text in found if not any(one in text for one in known)] == []
    assert [one for one in known if not any(one in text for text in found)] == []
    assert not [one for one in ELSEWHERE if any(one in text for text in texts.values())]
    assert [one for one in OF_ANY_RUN if not all(one in text for text in texts.values())] == []


def test_how_gradients_were_clipped_stands_beside_the_bound(texts: dict[str, str]) -> None:
    assert "(automatic)" in texts["automatic"]
    assert "(automatic)" not in texts["plain"]
