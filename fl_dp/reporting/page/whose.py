"""Whom an epsilon is for, and who has limited it, in the words of every sentence that says it."""

from fl_dp.config.data import PERSON
from fl_dp.reporting.page.facts import Run


def whose(run: Run) -> str:
    """ "one record at one client", "one person with data at up to 2 clients"."""
    one = f"one {run.unit}"
    if run.clients_per_person == 1:
        return f"{one} at one client"
    what = "data" if run.unit == PERSON else "a record"
    return f"one person with {what} at up to {run.clients_per_person} clients"


def whose_limit(run: Run) -> str:
    """Who has set the budgets."""
    return "the limit that whoever started this launch set" if run.local else "its own site's limit"
