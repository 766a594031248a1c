"""The guarantee in words that can be signed: for whom, against whom, under what assumptions and limits.

Nothing here claims more than docs/privacy.md and docs/persons.md do.
"""

import heapq
import math

from fl_dp.config.data import PERSON
from fl_dp.reporting.console import alone_words
from fl_dp.reporting.page.assumptions import arithmetic, assumed
from fl_dp.reporting.page.facts import RunFacts
from fl_dp.reporting.page.meaning import amount, meaning
from fl_dp.reporting.page.numbers import UNKNOWN, epsilon, plain
from fl_dp.reporting.page.over import (
    counted_runs,
    of_one_run,
    only_of_one_run,
    over_runs,
    whose,
    with_other_runs,
)
from fl_dp.reporting.page.pieces import Clause
from fl_dp.reporting.page.secure_sums import parts_hidden, second_epsilon, secure_sums
from fl_dp.reporting.promise import NO_PROMISE, PROMISE, PROMISE_OF_PERSONS
from fl_dp.reporting.refuted import sentence
from fl_dp.reporting.reports import BEYOND_USE, INTERRUPTED, NOT_PRIVATE
from fl_dp.reporting.wording import counted


def headline(run: RunFacts) -> str:
    """The guarantee in one line."""
    if not run.private and run.released_nothing:
        return f"{NOT_PRIVATE}: no protection was asked for. Nothing was trained, by this run's files."
    if not run.private:
        return f"{NOT_PRIVATE}: trained without protection. No epsilon holds."
    retired = ", but for accounts that were retired" if any(one.retired for one in run.clients) else ""
    if run.released_nothing:
        return (
            "Nothing was trained: by this run's files, no model and no update was released."
            f"{_spent_earlier(run)}"
        )
    so_far = "" if run.over else f" After round {run.rounds}: what was spent since is NOT in it."
    if run.spent_nothing:
        return f"Nothing was spent in this run: by its files, no client has trained.{so_far}"
    others = with_other_runs(run)
    what = f"in this run. {others}" if others else over_runs(run)
    bound = f"epsilon {epsilon(run.epsilon)}, delta {plain(run.delta)}"
    if run.stopped and run.planned_epsilon is not None:
        bound = (
            f"epsilon {epsilon(run.epsilon)} was paid; if results decided the stop, "
            f"{epsilon(run.planned_epsilon)} must be counted. Both are at delta {plain(run.delta)}"
        )
    if not math.isfinite(run.epsilon):
        bound = "no epsilon holds (it is infinite)"
    alone = second_epsilon(run)
    return f"For {whose(run)}: {bound}, {what}{retired}.{alone}{so_far}{sentence(run.arithmetic)}"


def ending(run: RunFacts) -> str:
    """How a run ended that has not completed."""
    planned = f" of {run.planned_rounds}" if run.planned_rounds else ""
    whose = "" if run.local else "own sites' "
    return {
        "completed": "",
        "budget-exhausted": (
            f"This run ended early, after {run.rounds}{planned} rounds: too few clients had room for another "
            f"round in their {whose}budgets, or in the run's epsilon."
        ),
        "failed": f"This run has failed.{_begun(run)}",
        INTERRUPTED: (
            f"This run was interrupted: Ctrl-C or a signal ended it after {run.rounds}{planned} rounds."
            f"{_begun(run)}"
        ),
    }.get(run.status, "This run has no summary: it is still going on, or was killed.")


def _begun(run: RunFacts) -> str:
    """For a run with a summary, which counts everything requested."""
    if run.released_nothing or run.rounds == run.planned_rounds:
        return ""
    counts = "; the epsilon of this page counts it" if run.private else ""
    begun = (
        "One round more was begun and paid for" if run.begun else "Clients may have paid for one round more"
    )
    return (
        f" {begun}; it was not finished, and is in no table of rounds{counts}. fl-dp ledger show "
        "tells what a client has paid, by its own ledger."
    )


def _spent_earlier(run: RunFacts) -> str:
    if not any(one.charges for one in run.clients) or not run.private:
        return ""
    if run.of_this_run:
        return " What the ledgers show of other runs stands beside each client."
    if not math.isfinite(run.epsilon):
        return " Earlier runs, as these ledgers show them: no epsilon holds for what they have spent."
    return (
        " Earlier runs, as these ledgers show them: "
        f"epsilon {epsilon(run.epsilon)}, delta {plain(run.delta)}."
    )


def clauses(run: RunFacts) -> tuple[Clause, ...]:
    """What is promised and what is not, in the order of the page."""
    if run.released_nothing:
        return (_nothing(run),)
    if not run.private:
        return (_no_promise(), _what_was_spent_without(run), _withdrawal(run))
    return (
        _promise(run),
        amount(run),
        meaning(run),
        *secure_sums(run),
        _neighbours(run),
        _adversary(run),
        _not_protected(run),
        _accounts(run),
        _chosen(run),
        arithmetic(run),
        assumed(run),
        _withdrawal(run),
    )


def _no_promise() -> Clause:
    return Clause("What is promised", NO_PROMISE)


def _nothing(run: RunFacts) -> Clause:
    text = (
        "No round was run, and no account holds more than before: there is no model, and nothing to bound. "
        "That clients were there, their declared sizes and what their ledgers had spent did leave them."
        if run.clients
        else "No round was run and no client had registered: there is no model, and nothing to bound."
    )
    return Clause("What this means", text + _spent_earlier(run))


def _what_was_spent_without(run: RunFacts) -> Clause:
    held = sum(math.isfinite(one.epsilon) for one in run.clients)
    allowed = (
        "Whoever started this launch allowed this for every client"
        if run.local
        else "Every client that took part allowed this in its own settings"
    )
    text = (
        f"The epsilon of this run is infinite. {allowed}, and the ledgers have noted it. "
        f"{_declined_since(run)} A private run on the same records does not undo it: publishing both reveals "
        "all that the unprotected run reveals."
    )
    if held:
        text += f" The data of {counted(held, 'client')} took no part, and are as protected as before."
    return Clause("What this means", text)


def _declined_since(run: RunFacts) -> str:
    if alone := of_one_run(run):
        return (
            f"The ledgers of {counted(alone, 'client')} were made for this run alone: no other ledger "
            "knows of it, and private training on the same data is not declined afterwards."
        )
    return "Private training on the same data is declined from then on, until the account is retired."


def _promise(run: RunFacts) -> Clause:
    return Clause("What is promised", PROMISE_OF_PERSONS if run.unit == PERSON else PROMISE)


def _neighbours(run: RunFacts) -> Clause:
    if run.unit == PERSON:
        return Clause(
            "Unit and neighbours",
            "The unit is a person: all records of which a column of the data says that they are that "
            f"person's.{_counting(run)} The promise compares two data sets of one client, called neighbours, "
            "that differ in all records of one person, there or not there (add or remove), and have the same "
            "declared number of persons. Somebody under two ids is two persons here.",
        )
    return Clause(
        "Unit and neighbours",
        "The unit is one record. The promise compares two data sets of one client, called neighbours, that "
        "differ in one record, there or not there (add or remove), and have the same declared number of "
        "records. k records of one person are protected with k times epsilon only, and a larger delta (group "
        "privacy).",
    )


def _counting(run: RunFacts) -> str:
    """How many records of a person count, if the settings say so."""
    most = run.records_per_person
    return f" In a step at most {counted(most, 'record')} of a person count." if most else ""


def _adversary(run: RunFacts) -> Clause:
    text = (
        f"{_what_holds(run)} against everybody but the client itself: a server that chooses every message, "
        f"that sees everything that is sent, and that knows every other {run.unit} of this client and all "
        "data of all other clients, together with all who work with it, before, during and afterwards. It "
        "does not have the client's machine: not its disk, memory or clock."
    )
    if run.epsilon_alone is not None and parts_hidden(run):
        text += (
            " Of secure sums it sees the sums alone, and what those clients know that work with it: no more "
            "of them in a sum than was planned for."
        )
    elif run.epsilon_alone is not None:
        text += (
            " In this run no mask hid a client's part of a sum from the server: "
            f"epsilon {epsilon(run.epsilon)} holds against those alone who see no more than the sums."
        )
    if run.simulated:
        text += (
            " This run was simulated: one launch held all clients' records, and so did whoever started it. "
            "The guarantee is about what the clients sent, and about the model."
        )
    elif run.local:
        text += (
            " This run's server and clients were on one machine, and whoever had that machine had the "
            "records of all. The guarantee is about what the clients sent, and about the model."
        )
    return Clause("Against whom", text)


def _what_holds(run: RunFacts) -> str:
    if run.epsilon_alone is None or parts_hidden(run):
        return "The guarantee holds"
    if run.epsilon_alone > BEYOND_USE:
        return "No epsilon of use holds"
    return f"Epsilon {alone_words(run.epsilon_alone)} holds"


_SEVERAL = (
    "Several records of one person at a client: they are protected less, k of them with k times epsilon and "
    "a larger delta."
)


def _not_protected(run: RunFacts) -> Clause:
    persons = run.unit == PERSON
    items = (
        "That a client takes part, in which rounds, when it answers, how long it takes, and that it failed.",
        f"The declared number of {run.unit}s of each client, the shape of a record, classes, settings.",
        f"Conclusions about people in general that would be the same without any one {run.unit}, such as a "
        "risk that a habit brings: they are what training is for, and may concern somebody who took no part.",
        f"A person {'under two ids, or ' if persons else ''}with data at more than "
        f"{counted(run.clients_per_person, 'client')}: the epsilons of all of them add up.",
        *(() if persons else (_SEVERAL,)),
        *(
            ("The server's own test data: the model is measured on them without noise.",)
            if run.measured
            else ()
        ),
        "Whatever is on a client's own machine: logs, ledger, memory.",
    )
    return Clause("What is not protected", "", items)


def _accounts(run: RunFacts) -> Clause:
    own = [math.inf if one.own_epsilon is None else one.own_epsilon for one in run.clients]
    earlier = sum(bool(one.before) for one in run.clients)
    retired = sum(one.retired > 0 for one in run.clients)
    text = counted_runs(run)
    if not run.over:
        text += (
            f"It is that after round {run.rounds}. This run has no summary: a round that was begun since is "
            "paid for in the ledgers, and NOT in this epsilon. "
        )
    if only_of_one_run(run) and not earlier:
        pass  # such a ledger knows nothing from before its run
    elif not run.before_known:
        text += "What had been spent before this run is not in its files; the ledgers have it."
    elif not earlier and not retired:
        which = "the other" if of_one_run(run) else "these"
        text += f"Nothing had been spent on {which} data when this run began, as their ledgers have it."
    elif earlier:
        text += (
            f"As their ledgers have it, the data of {counted(earlier, 'client')} had spent before this run."
        )
        alone = sum(heapq.nlargest(run.clients_per_person, own))
        if math.isfinite(alone) and not run.of_this_run:  # if it was not computed, it is not known
            text += f" Of this run alone it is {epsilon(alone)} at most, for {whose(run)}."
    if retired:
        text += (
            f" In the ledgers of {counted(retired, 'client')} accounts were retired: what these had spent is "
            f"NOT in {'what they show' if run.of_this_run else 'the epsilon'}."
        )
    return Clause("This run alone" if only_of_one_run(run) else "All runs on these data", text.strip())


def _chosen(run: RunFacts) -> Clause:
    endless = math.isinf(run.epsilon)  # then no budget holds either
    planned = UNKNOWN if run.planned_epsilon is None and not endless else epsilon(run.planned_epsilon)
    walls = run.budget is not None and all(one.epsilon <= (one.budget or 0.0) for one in run.clients)
    fallback = "" if run.planned_epsilon is not None or not walls or endless else (
        f" Each client's own budget holds in any case: epsilon {epsilon(run.budget)} or less."
    )  # fmt: skip
    if run.kept == "best":
        why = f"This model, of round {run.kept_round}, was chosen by what later rounds showed. "
    elif not run.over:
        why = "It is not known how this run ends, or whether its results decide. "
    elif run.chosen:
        why = f"This run did not end as planned ({run.status}), perhaps because of its results. "
    else:
        why = _planned_end(run)
    rule = (
        "Whoever stops a run, or chooses a model, because of results has to count the whole plan: epsilon "
        f"{planned}.{fallback} A server may decide by what it sees whether to go on: against that, rely on "
        "each client's own budget, in the table of the clients."
    )
    return Clause("If somebody stopped the run, or chose the model, because of its results", why + rule)


def _planned_end(run: RunFacts) -> str:
    if run.status == "completed":
        return "This run ended as planned. "
    rounds = counted(run.rounds, "round")
    return f"This run ended after {rounds} because budgets were spent, not because of results. "


def _withdrawal(run: RunFacts) -> Clause:
    text = (
        "A person who withdraws takes part in no later round, once the client's data no longer hold that "
        "person's records. What was released stays released: models and updates that were sent cannot be "
        "taken back, and the account keeps what was spent. "
    )
    if run.private and math.isfinite(run.epsilon):
        released = "this run has released" if run.of_this_run else "was released"
        text += (
            f"What can be learnt about one {run.unit} from what {released} stays within epsilon and delta "
            "above, also afterwards."
        )
    else:
        text += "Nothing bounds what can be learnt about somebody from what was released."
    return Clause("Who withdraws", text)
