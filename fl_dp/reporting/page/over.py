"""Over which runs an epsilon counts, in the words of every sentence that says it."""

from fl_dp.reporting.page.facts import Run
from fl_dp.reporting.wording import counted

_ALL, _ALONE = "over all runs", "over this run alone"


def of_one_run(run: Run) -> int:
    """How many clients' ledgers were made for this run alone, and do not know what other runs have spent.

    A client's own statement says it; where it has made none, the way in which the run was launched.
    """
    stated = {one.client: site.one_run_ledger for site in run.sites if not site.problem for one in site.data}
    return sum(stated.get(one.name, run.one_run_ledger) for one in run.clients)


def only_of_one_run(run: Run) -> bool:
    """Whether all are."""
    return bool(run.clients) and of_one_run(run) == len(run.clients)


def over_runs(run: Run) -> str:
    """As part of the guarantee."""
    if only_of_one_run(run):
        return f"{_ALONE}: the ledger was made for it"
    if run.of_this_run:
        return "this run"
    alone = of_one_run(run)
    return f"{_ALL} on these ledgers" + (f", {alone} of which were made for this run alone" if alone else "")


def over_runs_in_short(*runs: Run) -> str:
    """Of an axis; of several runs what holds for all of them."""
    if all(map(only_of_one_run, runs)):
        return _ALONE
    if all(run.of_this_run for run in runs):
        return "this run"
    return "as each ledger has it" if any(map(of_one_run, runs)) else _ALL


def counted_runs(run: Run) -> str:
    """What the epsilon holds, and what it leaves out; ends in a blank."""
    alone = of_one_run(run)
    left_out = "what other runs have spent on the same data is NOT in the epsilon, and adds to it. "
    if alone and only_of_one_run(run):
        return f"The epsilon above is that of this run: each ledger was made for it alone, and {left_out}"
    text = (
        "The epsilon above is what this run has cost: the server has computed it from the rounds that it "
        "asked for. What the same data spend in other runs comes on top of it. Beside each client stands "
        "what its ledger shows of these: that is its site's claim, which no server can check. "
        if run.of_this_run
        else "The epsilon above is that of each account: all that the same data have spent over all runs on "
        "the same ledger, this one included. "
    )
    if not alone:
        return text
    return f"{text}The ledgers of {counted(alone, 'client')} were made for this run alone: {left_out}"
