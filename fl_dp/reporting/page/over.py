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
    alone = of_one_run(run)
    return f"{_ALL} on these ledgers" + (f", {alone} of which were made for this run alone" if alone else "")


def over_runs_in_short(*runs: Run, if_all: str = _ALL) -> str:
    """Of an axis or a caption; of several runs what holds for all of them. if_all: where ledgers last."""
    if all(map(only_of_one_run, runs)):
        return _ALONE
    return "as each ledger has it" if any(map(of_one_run, runs)) else if_all


def counted_runs(run: Run) -> str:
    """What the accounts hold, and what they leave out; ends in a blank."""
    text = (
        "The epsilon above is that of each account: all that the same data have spent over all runs on the "
        "same ledger, this one included. "
    )
    alone = of_one_run(run)
    if not alone:
        return text
    left_out = "what other runs have spent on the same data is NOT in the epsilon, and adds to it. "
    if only_of_one_run(run):
        return f"The epsilon above is that of this run: each ledger was made for it alone, and {left_out}"
    return f"{text}The ledgers of {counted(alone, 'client')} were made for this run alone: {left_out}"
