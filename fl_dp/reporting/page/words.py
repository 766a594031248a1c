"""The guarantee in words that somebody can sign: whose, against whom, under what, and what it leaves out.

Nothing here claims more than docs/privacy.md and docs/persons.md do.
"""

import math
from dataclasses import dataclass

from fl_dp.config.data import PERSON
from fl_dp.records import PROVEN
from fl_dp.reporting.page.facts import Run
from fl_dp.reporting.page.numbers import UNKNOWN, counted, epsilon, number, odds
from fl_dp.reporting.promise import NO_PROMISE, PROMISE, PROMISE_OF_PERSONS
from fl_dp.reporting.reports import NOT_PRIVATE


@dataclass(frozen=True, slots=True)
class Clause:
    """One point: a heading, sentences, and perhaps a list after them."""

    heading: str
    text: str
    items: tuple[str, ...] = ()


def headline(run: Run) -> str:
    """The guarantee in one line."""
    if not run.private:
        return f"{NOT_PRIVATE}: trained without protection. No epsilon holds."
    return f"For {whose(run)}: epsilon {epsilon(run.epsilon)}, delta {number(run.delta)}, over all runs."


def whose(run: Run) -> str:
    one = f"one {run.unit}"
    if run.clients_per_person == 1:
        return f"{one} at one client"
    what = "data" if run.unit == PERSON else "a record"
    return f"one person with {what} at up to {run.clients_per_person} clients"


def clauses(run: Run) -> tuple[Clause, ...]:
    """What is promised and what is not, in the order of the page."""
    if not run.private:
        return (_no_promise(), _what_was_spent_without(run), _withdrawal(run))
    return (
        _promise(run),
        _amount(run),
        _neighbours(run),
        _adversary(run),
        _not_protected(run),
        _accounts(run),
        _chosen(run),
        _arithmetic(run),
        _assumed(run),
        _withdrawal(run),
    )


def _no_promise() -> Clause:
    return Clause("What is promised", NO_PROMISE)


def _what_was_spent_without(run: Run) -> Clause:
    held = sum(math.isfinite(one.epsilon) for one in run.clients)
    text = (
        "The epsilon of this run is infinite. Every client that took part allowed this in its own "
        "settings, and its ledger has noted it: private training on the same data is declined from then on, "
        "until the account is retired. "
        "Comparing this run with a private one on the same records publishes both."
    )
    if held:
        text += f" The data of {counted(held, 'client')} took no part, and are as protected as before."
    return Clause("What this means", text)


def _promise(run: Run) -> Clause:
    return Clause("What is promised", PROMISE_OF_PERSONS if run.unit == PERSON else PROMISE)


def _amount(run: Run) -> Clause:
    text = (
        f"Epsilon {epsilon(run.epsilon)} (rounded up) and delta {number(run.delta)}, for {whose(run)}, "
        f"computed by the accountant {' and '.join(run.accountants) or UNKNOWN}. "
    )
    if run.clients_per_person > 1:
        text += f"These are the sums of the {run.clients_per_person} largest of the clients. "
    else:
        text += "These are the largest of the clients; each client has its own, in the tables below. "
    if math.isfinite(run.epsilon):
        text += (
            f"A guess whether the {run.unit} was there that starts at even odds is right with a "
            f"probability of {odds(run.epsilon)} at most, delta aside."
        )
    return Clause("How much, and for whom", text)


def _neighbours(run: Run) -> Clause:
    if run.unit == PERSON:
        return Clause(
            "Unit and neighbours",
            "The unit is a person: all records of which a column of the data says that they are that "
            "person's. Neighbours are two data sets of one client that differ in all records of one "
            "person, there or not there (add or remove), and have the same declared number of persons. "
            "Somebody under two ids is two persons here.",
        )
    return Clause(
        "Unit and neighbours",
        "The unit is one record. Neighbours are two data sets of one client that differ in one record, "
        "there or not there (add or remove), and have the same declared number of records. k records of "
        "one person are protected with k times epsilon only, and a larger delta (group privacy).",
    )


def _adversary(run: Run) -> Clause:
    text = (
        f"Everybody but the client itself: a server that chooses every message, that sees everything that is "
        f"sent, and that knows every other {run.unit} of this client and all data of all other clients, "
        "together with all who work with it, before, during and afterwards. It does not have the client's "
        "machine: not its disk, memory or clock."
    )
    if run.simulated:
        text += (
            " This run was simulated: all clients were on one machine, and whoever had that machine had "
            "their records. The guarantee is about what the clients sent, and about the model."
        )
    return Clause("Against whom", text)


def _not_protected(run: Run) -> Clause:
    persons = run.unit == PERSON
    items = (
        "That a client takes part, in which rounds, when it answers, how long it takes, and that it failed.",
        f"The declared number of {run.unit}s of each client, the shape of a record, classes, settings.",
        "What the data as a whole say: a conclusion that would be the same without any one "
        f"{run.unit} is what training is for.",
        f"A person at several clients{', or under two ids,' if persons else ''} beyond those that are "
        f"counted above ({run.clients_per_person}).",
        *(() if persons else ("Several records of one person at a client together.",)),
        "The server's own test data: the model is measured on them without noise.",
        "Whatever is on a client's own machine: logs, ledger, memory.",
    )
    return Clause("What is not protected", "", items)


def _accounts(run: Run) -> Clause:
    own = [one.own_epsilon for one in run.clients if one.own_epsilon is not None]
    earlier = sum(bool(one.before) for one in run.clients)
    retired = sum(one.retired > 0 for one in run.clients)
    text = (
        "The epsilon above is that of each account: all that the same data have spent over all runs on the "
        "same ledger, this one included. "
    )
    if not run.before_known:
        text += "What had been spent before this run is not in its files; the ledgers have it."
    elif not earlier:
        text += "Nothing had been spent on these data when this run began, as their ledgers have it."
    else:
        text += f"The data of {counted(earlier, 'client')} had spent before this run."
        if own:
            text += (
                f" Of this run alone it is {epsilon(max(own))} at most, of those for which it was computed."
            )
    if retired:
        text += (
            f" In the ledgers of {counted(retired, 'client')} accounts were retired: what these had spent is "
            "NOT in the epsilon."
        )
    return Clause("All runs on these data", text)


def _chosen(run: Run) -> Clause:
    planned = UNKNOWN if run.planned_epsilon is None else epsilon(run.planned_epsilon)
    fallback = "" if run.planned_epsilon is not None or run.budget is None else (
        f" The budget, epsilon {epsilon(run.budget)} for each client, holds in any case."
    )  # fmt: skip
    if run.kept == "best":
        why = f"This model, of round {run.kept_round}, was chosen by what later rounds showed. "
    elif run.chosen:
        why = f"This run did not end as planned ({run.status}), perhaps because of its results. "
    else:
        why = "This run ended as planned. "
    rule = (
        "Whoever stops a run, or chooses a model, because of results has to count the whole plan: epsilon "
        f"{planned}.{fallback} Against a server that decides by what it sees whether to go on, rely on the "
        "budgets."
    )
    return Clause("If results decided", why + rule)


def _arithmetic(run: Run) -> Clause:
    if run.arithmetic == PROVEN:
        return Clause(
            "Arithmetic: proven",
            "Each record had a pass of its own, so that what rounding adds is bounded by a proof. That a "
            "pass has no memory of passes before it is assumed, and tested when a run starts.",
        )
    return Clause(
        "Arithmetic: assumed",
        "It is assumed, not proven, that rounding in floating point moves a sum by no more than 0.001 of the "
        "clipping bound. The noise is wider by that. Searches for worse cases found less, and prove nothing.",
    )


def _assumed(run: Run) -> Clause:
    mixed = sum(len({(e.sample_rate, e.noise_multiplier) for e in one.charges}) > 1 for one in run.clients)
    items = [
        "Ledgers are kept: not deleted, restored from an older copy or retired. What they no longer hold "
        "is not counted.",
        "The declared sizes are public, and one record is in one place.",
        "Settings were not found by training on the same records outside these ledgers.",
        "The clients ran fl_dp's own code.",
    ]
    if mixed:
        items.insert(
            0,
            f"The accounts of {counted(mixed, 'client')} hold more than one rate or noise multiplier. Their "
            "epsilons hold only if these were fixed without looking at earlier results.",
        )
    return Clause(
        "What is assumed", "Above all the following; docs/privacy.md has the whole list.", tuple(items)
    )


def _withdrawal(run: Run) -> Clause:
    text = (
        "Who withdraws is in no future round, once the client's data no longer hold them. What was "
        "released stays released: models and updates that were sent cannot be taken back, and the account "
        "keeps what was spent. "
    )
    if run.private:
        text += (
            f"What can be learnt about one {run.unit} from what was released stays within epsilon and delta "
            "above, also afterwards."
        )
    else:
        text += "Nothing bounds what can be learnt about somebody from what was released."
    return Clause("Who withdraws", text)
