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
    "rounds: too few clients had room for another round in their own": ("budget spent", "failed"),
    "Sites may have paid for one round more, which was begun": ("interrupted", "failed"),
    "; the epsilon of this page counts it": ("interrupted", "unprotected, interrupted"),
    "Whoever wrote its folder says:": ("failed", "killed"),
    "), perhaps because of its results.": ("interrupted", "killed"),
    "because budgets were spent, not because of results.": ("budget spent", "failed"),
    "This run ended as planned.": ("plain", "interrupted"),
    "It is not known how this run ends, or whether its results decide.": ("killed", "plain"),
    ", was chosen by what later rounds showed.": ("best", "average"),
    "Each client's own budget holds in any case: epsilon": ("no plan", "below an old budget"),
    "A server may decide by what it sees whether to go on: against that": ("best", "unprotected"),
    # What was trained, how, and what is left of it.
    "No round was run, and no account holds more than before:": ("no round", "paid, no round"),
    "No round was run and no client had registered: there is no model": ("nobody came", "no round"),
    "Nothing was trained: by its files, this run has released nothing.": ("no round", "paid, no round"),
    ": no protection was asked for. Nothing was trained": ("unprotected, no round", "unprotected"),
    ": trained without protection. No epsilon holds.": ("unprotected", "unprotected, no round"),
    "None: NOT PRIVATE. The model was trained without protection": ("unprotected", "unprotected, no round"),
    "The epsilon of this run is infinite. Every client that": ("unprotected", "unprotected, no round"),
    "Private training on the same data is declined from then on": ("unprotected", "unprotected, own ledgers"),
    "no other ledger knows of it, and private training": ("unprotected, own ledgers", "unprotected"),
    "none holds: it is infinite": ("unprotected", "plain"),
    "took no part, and are as protected as before.": ("unprotected, one absent", "unprotected"),
    "none: no client was there": ("nobody came", "no round"),
    "the initial one: no round has changed it": ("all lost", "plain"),
    "the moving average of the rounds' models": ("average", "best"),
    "the best one, of round": ("best", "average"),
    "the half of the server's test data that it was not chosen on": ("best", "plain"),
    ", on the server's test data": ("plain", "best"),
    "simulated: one launch played all clients": ("simulated", "served"),
    "a server, and a process of its own for each client, all started on one": ("plain", "served"),
    "a server; its clients were started by others": ("served", "plain"),
    "This run was simulated: one launch held all clients' records": ("simulated", "served"),
    "This run's server and clients were on one machine": ("plain", "served"),
    ", unless the task has its own": ("killed, with a task", "of a task"),
    "all of it is built in": ("plain", "killed, with a task"),
    "by a noised count, which the noise multiplier pays for": ("a bound that follows", "plain"),
    ", of each client its own": ("a noise each", "plain"),
    "Why clients did not train": ("declined", "plain"),
    "What each client's data have spent: epsilon of this run": ("plain", "nobody came"),
    "Noise, rate, batch and steps of each client": ("plain", "nobody came"),
    "if all planned rounds run": ("plain", "nobody came"),
    "sample rate (share of the": ("plain", "nobody came"),
    "steps in all, as the server counts them": ("plain", "nobody came"),
    # Whose data, by whose word.
    ", in the word of the server's operator alone": ("silent", "plain"),
    ", unless the task reads its own": ("killed, with a task", "of a task"),
    "stated, and signed by nobody": ("plain", "served"),
    "signed by the key beside it.": ("served", "silent"),
    "signed by the key beside its statement": ("served", "plain"),
    "by the key with the fingerprint": ("served", "plain"),
    "No site has stated anything. Sizes and epsilons": ("silent", "plain"),
    "The clients of a simulation have no keys.": ("simulated", "served"),
    "not to be relied on, see below.": ("forged", "served"),
    "WRONG: the signature is not of the key": ("forged", "served"),
    "too low for them. Another run may have used their data": ("plain", "of another run"),
    "what is said at the top is": ("plain", "of this run"),
    "A commitment stands for the state of a ledger at the end": ("plain", "silent"),
    ". It came before this page, and the site has not seen": ("served", "plain"),
    "A signature that fits its key is not yet the site's own": ("served", "one signed"),
    "compare the key with the roster.": ("served", "one signed"),
    ", and whose the keys are": ("served", "one signed"),
    ", which was made for this launch alone": ("one signed", "served"),
    "Its key was made for this launch alone, on the launch's own machine": ("one signed", "served"),
    "Signed by no site": ("one signed", "forged"),
    "What no site has signed is listed under": ("one signed", "forged"),
    "On this page it is the word of whoever wrote": ("one signed", "forged"),
    "Lines of the other sites: continued on sheet 2.": ("many clients", "plain"),
    "Purpose and approval, continued from sheet 1": ("many clients", "plain"),
    "How good the model is": ("unmeasured", "plain"),
    "No site has signed anything": ("silent", "forged"),
    "No signature below holds for this run and model": ("forged", "silent"),
    ": this page is the word of whoever wrote": ("forged", "one signed"),
    ", before the run ended on": ("approved early", "approved"),
    "Columns, as the schema declares them in public": ("called otherwise", "plain"),
    "Names of what is predicted": ("of a task", "plain"),
    "Records of one person that count in a step": ("persons", "plain"),
    ", on a sheet of their own": ("many clients", "plain"),
    "rows more are not on this page;": ("many clients", "plain"),
    "writes all of them.": ("many clients", "plain"),
    # What was measured.
    "The server's own test data: the model is measured on them": ("plain", "unmeasured"),
    "Accuracy of labels, of each subgroup": ("by subgroup", "by class"),
    "Mean absolute error of each subgroup": ("by subgroup", "by class"),
    "the worst that is told": ("by class", "by class, of old"),
    "Hidden: a class or subgroup with fewer than": ("by class", "by class, of old"),
    "test records, and others of which adding and subtracting": ("by class", "by class, of old"),
    "of an accuracy: chance alone moves small ones": ("by class", "by class, of old"),
    "numbers of single classes or subgroups are not shown: how many": ("by class, of old", "by class"),
    "has to stay hidden.": ("by class, of old", "by class"),
    # What is promised to whom.
    "Differential privacy, add or remove one record at one client": ("plain", "persons"),
    "Differential privacy, add or remove one person with all records": ("persons", "plain"),
    "The unit is one record. The promise compares two data sets": ("plain", "persons"),
    "called neighbours, that differ in all records of one person": ("persons", "plain"),
    "Several records of one person at a client together.": ("plain", "persons"),
    "clients with the largest are added up.": ("records at two", "plain"),
    "There was one client: they are its own.": ("one client", "plain"),
    "Each is the largest among the clients. The tables below": ("plain", "one client"),
    "what was spent has none that is finite.": ("infinite", "plain"),
    "no epsilon holds (it is infinite)": ("infinite", "plain"),
    "How much, and for whom": ("plain", "unprotected"),
    ", and 50 % is a blind guess. The formula is": ("plain", "infinite"),
    "An infinite epsilon sets no limit to what can be found out.": ("infinite", "plain"),
    "That is next to no limit.": ("much", "plain"),
    "from what was released stays within epsilon and delta above": ("plain", "infinite"),
    "Nothing bounds what can be learnt about somebody": ("infinite", "plain"),
    "A person who withdraws takes part in no later round": ("unprotected", "nobody came"),
    "of this client and all data of all other clients, together with": ("plain", "unprotected"),
    "That a client takes part, in which rounds, when it answers": ("plain", "unprotected"),
    "s of each client, the shape of a record, classes, settings.": ("plain", "unprotected"),
    ", such as a risk that a habit brings: they are what training is for": ("plain", "unprotected"),
    ": the epsilons of all of them add up.": ("plain", "unprotected"),
    "Whatever is on a client's own machine: logs, ledger, memory.": ("plain", "unprotected"),
    # What was spent, before and since.
    "All runs on these data": ("plain", "no round"),
    "The epsilon above is that of each account: all that": ("plain", "of this run"),
    "what other runs have spent on the same data is NOT in the epsilon": ("own ledgers", "plain"),
    "each ledger was made for it alone": ("own ledgers", "one own ledger"),
    ": the ledger was made for it": ("own ledgers", "one own ledger"),
    "were made for this run alone:": ("one own ledger", "own ledgers"),
    "of which were made for this run alone": ("one own ledger", "own ledgers"),
    "; a ledger that was made for this run alone knows of no others": ("own ledgers", "plain"),
    "Earlier runs, as these ledgers show them: epsilon": ("no round", "nobody came"),
    "Earlier runs, as these ledgers show them: no epsilon holds for what": ("no round, infinite", "no round"),
    "data when this run began, as their ledgers have it.": ("plain", "retired"),
    "As their ledgers have it, the data of": ("spent before", "plain"),
    "Of this run alone it is": ("spent before", "plain"),
    "What had been spent before this run is not in its files": ("of an old version", "plain"),
    ", but for accounts that were retired": ("retired", "plain"),
    "accounts were retired: what these had spent is NOT in": ("retired", "plain"),
    ". What the same data spend in other runs comes on top": ("of this run", "plain"),
    "What the ledgers show of other runs stands beside each client.": ("of this run, no round", "no round"),
    "The epsilon above is what this run has cost: the server has computed": ("of this run", "plain"),
    ": what was spent since is NOT in it.": ("killed", "interrupted"),
    ". This run has no summary: a round that was begun since": ("killed", "interrupted"),
    # What is assumed.
    ". Whoever signs for the guarantee takes them to be met: no file": ("plain", "unprotected"),
    "Whoever signs takes the conditions under": ("plain", "unprotected"),
    "Nobody looked for the settings by training on the same": ("plain", "unprotected"),
    "No site's operator set a budget, or retired an account": ("plain", "unprotected"),
    "Each site has kept its ledger: it was not deleted": ("plain", "unprotected"),
    "s that each site declared is public, and would have been": ("served", "plain"),
    "s of each client is public. This launch cut one data set into parts": ("plain", "served"),
    "The shape of a record, the classes, the settings, and the range": ("plain", "unprotected"),
    "Each site ran fl_dp's own code, unchanged.": ("plain", "unprotected"),
    "The random numbers of each site's system are unpredictable": ("plain", "unprotected"),
    "If the model draws random numbers of its own (dropout)": ("plain", "unprotected"),
    "The task's own code, whose identity stands below": ("of other code", "plain"),
    "The weights that training started from were not made": ("weights of a file", "plain"),
    "Each record is there once: in one data set, at one client.": ("plain", "unprotected"),
    "hold more than one rate or noise multiplier.": ("two mechanisms", "plain"),
    "No account has paid for a step: nothing was added up": ("nothing paid", "plain"),
    "Each record had a pass of its own, so that what rounding adds": ("persons", "nothing paid"),
    "What rounding adds to a sum of clipped gradients is bounded": ("plain", "persons"),
    "It is assumed, not proven, that rounding in floating point": ("refuted", "plain"),
    # What its files say of budgets and signatures.
    "No client's epsilon is above its budget, its own site's limit for": ("plain", "below an old budget"),
    "and one that no epsilon holds": ("states none", "plain"),
    "is ABOVE its budget.": ("below an old budget", "plain"),
    "; no other client's epsilon is above its own.": ("one budget", "no budget"),
    "The files name no budget.": ("no budget", "plain"),
    ": no epsilon holds.": ("unprotected", "plain"),
    "what the data have spent is signed, by the key": ("served", "simulated"),
    "No statement of what data have spent has a signature that holds.": ("silent", "served"),
    "Nobody has signed: the clients of a simulation have no keys.": ("simulated", "served"),
    "Statements of sites do NOT agree with the run, see below.": ("forged", "silent"),
    # Secure sums.
    "Epsilon, if the assumption behind secure sums fails": ("masked sums", "plain"),
    "If the assumption behind secure sums fails": ("masked sums", "plain"),
    "If the assumption behind secure sums fails: epsilon": ("masked sums", "plain"),
    ". It assumes that no more of the clients in a sum work with the server": ("masked sums", "plain"),
    ", and a client's own is then all that protects.": ("masked sums", "plain"),
    ", and a person may be at": ("masked sums", "plain"),
    "Of secure sums it sees the sums alone": ("masked sums", "simulated sums"),
    "But in this run no mask hid a client's part of a sum": ("simulated sums", "masked sums"),
    "This run was simulated: its masks hid no part": ("simulated sums", "open sums"),
    "no epsilon of use holds (none: it is infinite, or above": ("open sums", "masked sums"),
    "No masks hid the parts of this run's sums": ("open sums", "masked sums"),
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
    "By the files of the run:",
    "says whether these files agree with each other",
    ". Each printed sheet bears it. What a site allowed before the run",
    ") is in its own folder, and not on this page.",
    "What fl-dp verify said of these files",
    "What was trained, by whom, when",
    "As the server's operator calls them",
    "Data sets, and what their sites have committed to",
    "Declared public: nothing here is from a record. What no site has signed is the word of",
    "Operated by (server and sites)",
    "Kept until, or for how long",
    "to be filled in by hand",
    "The digest ties this page to the files of the run",
    "Clipping bound, of the length of one",
    "Seed of noise, draws and choice of clients",
    "Identity of the task's code",
    ". Everything on this page was made from the files of the run; it loads nothing and runs no script.",
)


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Of each kind of run the text of its page, without pictures, whose texts read out their tables."""
    with pytest.MonkeyPatch.context() as without:
        without.setattr(render, "_figures", lambda run: [])
        folders = {name: made(maker(tmp_path_factory.mktemp("run"))) for name, made in RUNS.items()}
        return {name: Page(render.render_page([folder])).text for name, folder in folders.items()}


@pytest.mark.parametrize("sentence", FOLLOWS)
def test_a_sentence_stands_where_it_is_true_and_not_where_it_is_false(
    sentence: str, texts: dict[str, str]
) -> None:
    true, false = FOLLOWS[sentence]
    assert sentence in texts[true]
    assert sentence not in texts[false]


def test_every_sentence_of_the_code_has_both_cases(texts: dict[str, str]) -> None:
    found = sentences()
    known = (*FOLLOWS, *OF_ANY_RUN, *ELSEWHERE)
    assert [text for text in found if not any(one in text for one in known)] == []
    assert [one for one in known if not any(one in text for text in found)] == []
    assert not [one for one in ELSEWHERE if any(one in text for text in texts.values())]
    assert [one for one in OF_ANY_RUN if not all(one in text for text in texts.values())] == []
