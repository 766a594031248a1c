"""Whom an epsilon protects and which runs it counts, worded once for every sentence that says it."""

import heapq
import math

from fl_dp.config.data import PERSON
from fl_dp.reporting.page.facts import RunFacts
from fl_dp.reporting.page.numbers import epsilon, known_epsilon
from fl_dp.reporting.wording import counted

_ALL = "over all runs"


def whose(run: RunFacts) -> str:
    """ "one record at one client", "one person with data at up to 2 clients"."""
    one = f"one {run.unit}"
    if run.clients_per_person == 1:
        return f"{one} at one client"
    what = "data" if run.unit == PERSON else "a record"
    return f"one person with {what} at up to {run.clients_per_person} clients"


def whose_limit(run: RunFacts) -> str:
    """Who set the budgets."""
    return "the limit set by whoever started this launch" if run.local else "its own site's limit"


def knows_others(run: RunFacts) -> dict[str, bool | None]:
    """By client: whether its ledger knows of other runs, or was made for this run alone.

    Taken from the client's own statement, or without one from how the run was launched. None if the files do
    not say.
    """
    launched = not run.one_run_ledger if run.local else None
    stated = {one.client: site.one_run_ledger for site in run.stating for one in site.data}
    return {one.name: not stated[one.name] if one.name in stated else launched for one in run.clients}


def of_one_run(run: RunFacts) -> int:
    """Number of clients whose ledgers were made for this run alone, and know of no other."""
    return _knowing(run).count(False)


def _knowing(run: RunFacts) -> list[bool | None]:
    """`knows_others` of the clients in the federation's figures, so that no other client changes it."""
    known = knows_others(run)
    return [known[one.name] for one in run.counted or run.clients]


def only_of_one_run(run: RunFacts) -> bool:
    """Whether all ledgers were made for this run alone."""
    return bool(run.clients) and set(_knowing(run)) == {False}


def over_runs(run: RunFacts) -> str:
    """As part of the guarantee."""
    if run.of_this_run or only_of_one_run(run):
        return "this run"
    alone = of_one_run(run)
    return f"{_ALL} on these ledgers" + (f", {alone} of which were made for this run alone" if alone else "")


def with_other_runs(run: RunFacts) -> str:
    """What the page knows of other runs on the same data, no full stop; empty if epsilon counts them."""
    if only_of_one_run(run):
        return (
            "The ledger was made for this run only: what other runs on the same data have spent is not "
            "known and adds to it"
        )
    if not run.of_this_run:
        return ""
    claim = "" if run.local else ", as the sites claim"
    if alone := of_one_run(run):
        claim += f" ({alone} of {len(run.counted)} ledgers know of this run only)"
    if None in _knowing(run):
        claim += " (no file says whether all ledgers know of other runs)"
    if all(one.own_charges == one.charges for one in run.counted):
        return f"The ledgers show no other runs on the same data{claim}"
    return f"Together with what the ledgers show of other runs{claim}: {together(run)}"


def together(run: RunFacts) -> str:
    """The most that ledgers show for this run and others, "up to 1.49 (budget 1.50)"."""
    largest = heapq.nlargest(run.clients_per_person, run.counted, key=lambda one: one.epsilon)
    most = sum(one.epsilon for one in largest)
    if not math.isfinite(most):
        return "no epsilon holds"
    budgets = " and ".join(dict.fromkeys(known_epsilon(one.budget) for one in largest))
    return f"up to {epsilon(most)} (budget {budgets}{' at each client' if len(largest) > 1 else ''})"


def over_runs_in_short(run: RunFacts) -> str:
    """A short form for an axis."""
    if only_of_one_run(run):
        return "over this run alone"
    if run.of_this_run:
        return "this run"
    return "as each ledger has it" if of_one_run(run) else _ALL


def counted_runs(run: RunFacts) -> str:
    """What the epsilon counts, and what it leaves out; ends in a space."""
    alone = of_one_run(run)
    left_out = "what other runs have spent on the same data is NOT in the epsilon and adds to it. "
    if alone and only_of_one_run(run):
        return f"The epsilon above is that of this run: each ledger was made for it alone, and {left_out}"
    claim = "" if run.local else ": that is its site's claim, which no server can check"
    text = (
        "The epsilon above is what this run has cost, computed by the server from the rounds that it asked "
        "for. What the same data spend in other runs is added to it. The table of clients has what each "
        f"ledger shows of other runs{claim}. "
        if run.of_this_run
        else "The epsilon above counts each account in full: all that the same data have spent over all "
        "runs on the same ledger, this one included. "
    )
    if not alone:
        return text
    return f"{text}The ledgers of {counted(alone, 'client')} were made for this run alone: {left_out}"
