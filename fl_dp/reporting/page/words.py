"""The guarantee in words that can be signed: for whom, against whom, under what assumptions and limits.

Nothing here claims more than docs/privacy.md and docs/persons.md do.
"""

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
from fl_dp.reporting.reports import BEYOND_USE, INTERRUPTED, NOT_PRIVATE
from fl_dp.reporting.wording import counted


def headline(run: RunFacts) -> str:
    """The guarantee in one line."""
    if not run.private and run.released_nothing:
        return (
            f"{NOT_PRIVATE}: no protection was asked for. Nothing was trained, according to this run's files."
        )
    if not run.private:
        return f"{NOT_PRIVATE}: trained without protection. No epsilon holds."
    retired = ", except accounts that were retired" if any(one.retired for one in run.clients) else ""
    if run.released_nothing:
        return (
            "Nothing was trained: according to this run's files, no model and no update was "
            f"released.{_spent_earlier(run)}"
        )
    so_far = (
        "" if run.over else f" This is as of round {run.rounds}: what was spent since then is NOT included."
    )
    if run.spent_nothing:
        return f"Nothing was spent in this run: according to its files, no client has trained.{so_far}"
    others = with_other_runs(run)
    what = f"in this run. {others}" if others else over_runs(run)
    bound = f"epsilon {epsilon(run.epsilon)}, delta {plain(run.delta)}"
    if run.stopped and run.planned_epsilon is not None:
        bound = (
            f"epsilon {epsilon(run.epsilon)} was paid; if results decided when it stopped, epsilon "
            f"{epsilon(run.planned_epsilon)} must be counted. Both are at delta {plain(run.delta)}"
        )
    if not math.isfinite(run.epsilon):
        bound = "no epsilon holds (it is infinite)"
    alone = second_epsilon(run)
    return f"For {whose(run)}: {bound}, {what}{retired}.{alone}{so_far}"


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
    counts = "; the epsilon on this page counts it" if run.private else ""
    begun = (
        "One more round was begun and paid for" if run.begun else "Clients may have paid for one more round"
    )
    return (
        f" {begun}; it was not finished, and no table of rounds lists it{counts}. fl-dp ledger show prints "
        "what a client has paid, according to its own ledger."
    )


def _spent_earlier(run: RunFacts) -> str:
    if not any(one.charges for one in run.clients) or not run.private:
        return ""
    if run.of_this_run:
        return " The table of clients has what the ledgers show of other runs."
    if not math.isfinite(run.epsilon):
        return " Earlier runs in these ledgers: no epsilon holds for what they have spent."
    return f" Earlier runs in these ledgers: epsilon {epsilon(run.epsilon)}, delta {plain(run.delta)}."


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
        "No round was run, and nothing was added to any account: there is no model, and nothing to bound. "
        "Clients did reveal that they were there, their declared sizes, and what their ledgers had spent."
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
        f"The epsilon of this run is infinite. {allowed}, and the ledgers record it. "
        f"{_declined_since(run)} A private run on the same records does not undo it: publishing both "
        "reveals everything that the unprotected run reveals."
    )
    if held:
        text += f" The data of {counted(held, 'client')} were not used, and are as protected as before."
    return Clause("What this means", text)


def _declined_since(run: RunFacts) -> str:
    if alone := of_one_run(run):
        return (
            f"The ledgers of {counted(alone, 'client')} were made for this run alone: no other ledger "
            "knows of it, and private training on the same data is not declined afterwards."
        )
    return "From then on, private training on the same data is declined until the account is retired."


def _promise(run: RunFacts) -> Clause:
    return Clause("What is promised", PROMISE_OF_PERSONS if run.unit == PERSON else PROMISE)


def _neighbours(run: RunFacts) -> Clause:
    if run.unit == PERSON:
        return Clause(
            "Unit and neighbours",
            "The unit is a person: all records that a column of the data assigns to that "
            f"person.{_counting(run)} The promise compares two data sets of one client, called neighbours. "
            "They differ in all records of one person, which are in one and not in the other (add or "
            "remove), and have the same declared number of persons. Somebody with two ids counts as two "
            "persons.",
        )
    return Clause(
        "Unit and neighbours",
        "The unit is one record. The promise compares two data sets of one client, called neighbours. They "
        "differ in one record, which is in one and not in the other (add or remove), and have the same "
        "declared number of records. k records of one person are protected only with k times epsilon and a "
        "larger delta (group privacy).",
    )


def _counting(run: RunFacts) -> str:
    """How many records of a person count, if the settings say so."""
    most = run.records_per_person
    return f" In a step at most {counted(most, 'record')} of a person count." if most else ""


def _adversary(run: RunFacts) -> Clause:
    text = (
        f"{_what_holds(run)} against everybody but the client itself, before, during and after the run. "
        "That includes a server that chooses every message, sees everything that is sent, and knows every "
        f"other {run.unit} of this client and all data of all other clients, together with everybody who "
        "colludes with it. It does not have the client's machine: not its disk, memory or clock."
    )
    if run.epsilon_alone is not None and parts_hidden(run):
        text += (
            " Of secure sums it sees only the sums, and what the clients that collude with it know: no "
            "more of them in a sum than was planned for."
        )
    elif run.epsilon_alone is not None:
        text += (
            " In this run no mask hid a client's part of a sum from the server: epsilon "
            f"{epsilon(run.epsilon)} holds only against those who see no more than the sums."
        )
    if run.simulated:
        text += (
            " This run was simulated: one launch held all clients' records, and so did whoever started it. "
            "The guarantee is about what the clients sent, and about the model."
        )
    elif run.local:
        text += (
            " This run's server and clients were on one machine, and whoever had that machine had all "
            "clients' records. The guarantee is about what the clients sent, and about the model."
        )
    return Clause("Against whom", text)


def _what_holds(run: RunFacts) -> str:
    if run.epsilon_alone is None or parts_hidden(run):
        return "The guarantee holds"
    if run.epsilon_alone > BEYOND_USE:
        return "No useful epsilon holds"
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
        f"A person {'with two ids, or ' if persons else ''}with data at more than "
        "1 client: the epsilons of all these clients add up.",
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
            f"It is as of round {run.rounds}. This run has no summary: a round that was begun since then "
            "is paid for in the ledgers, and NOT in this epsilon. "
        )
    if only_of_one_run(run) and not earlier:
        pass  # such a ledger knows nothing from before its run
    elif not run.before_known:
        text += "What had been spent before this run is not in its files; the ledgers have it."
    elif not earlier and not retired:
        which = "the other" if of_one_run(run) else "these"
        text += f"According to their ledgers, nothing had been spent on {which} data when this run began."
    elif earlier:
        text += (
            f"According to their ledgers, the data of {counted(earlier, 'client')} had already spent "
            "before this run."
        )
        alone = max(own)
        if math.isfinite(alone) and not run.of_this_run:  # if it was not computed, it is not known
            text += f" This run alone costs at most epsilon {epsilon(alone)}, for {whose(run)}."
    if retired:
        text += (
            f" In the ledgers of {counted(retired, 'client')}, accounts were retired: what these had spent "
            f"is NOT in {'what they show' if run.of_this_run else 'the epsilon'}."
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
        why = f"This model, of round {run.kept_round}, was chosen knowing the later rounds. "
    elif not run.over:
        why = "It is not known how this run will end, or whether its results decide that. "
    elif run.chosen:
        why = f"This run did not end as planned ({run.status}), perhaps because of its results. "
    else:
        why = _planned_end(run)
    rule = (
        "Whoever stops a run, or chooses a model, because of results must count the whole plan: epsilon "
        f"{planned}.{fallback} A server may decide from what it sees whether to go on: against that, rely "
        "on each client's own budget, in the table of clients."
    )
    return Clause("If somebody stopped the run, or chose the model, because of its results", why + rule)


def _planned_end(run: RunFacts) -> str:
    if run.status == "completed":
        return "This run ended as planned. "
    rounds = counted(run.rounds, "round")
    return f"This run ended after {rounds} because budgets were spent, not because of results. "


def _withdrawal(run: RunFacts) -> Clause:
    text = (
        "A person who withdraws takes part in no later round once the client's data no longer hold that "
        "person's records. What was released stays released: models and updates that were sent cannot be "
        "taken back, and the account keeps what was spent. "
    )
    if run.private and math.isfinite(run.epsilon):
        released = "this run has released" if run.of_this_run else "was released"
        text += (
            f"What can be learnt about one {run.unit} from what {released} stays within the epsilon and "
            "delta above, also afterwards."
        )
    else:
        text += "Nothing limits what can be learnt about somebody from what was released."
    return Clause("Withdrawal", text)
