"""What is filled in and signed: by the approvers, and by each site."""

import datetime

from fl_dp.reporting.page.approval import day
from fl_dp.reporting.page.facts import Named, RunFacts
from fl_dp.reporting.wording import counted, some

_SITES = 20  # with a line of their own
_NAMED = 6  # clients named in one line


def approval_lines(run: RunFacts) -> Named:
    """The fields of a record of processing; empty ones are lines to fill in by hand.

    The result of `fl-dp verify` is always empty: the page is drawn before it.
    """
    said = run.approval
    return (
        ("Purpose", said.purpose),
        ("Operated by (server and sites)", said.operator),
        ("Legal basis", said.legal_basis),
        ("Who gets the model", said.recipients),
        ("Kept until, or for how long", said.retention),
        ("Approved by", said.approver),
        ("Date (year-month-day)", _date(said.date, run.ended)),
        ("What fl-dp verify said about these files", ""),
        ("Signature", ""),
    )


def _date(text: str, ended: str) -> str:
    """The date as in the file, which anybody may have written; `write_approval` accepts only real days.

    ended: of the run, in UTC. No approval can predate the result by the clocks of any place on earth.
    """
    approved, last = day(text), _earliest_day(ended)
    if text and not approved:
        return f"NOT A DAY OF THE CALENDAR: {text}"
    if approved and last and approved < last:
        return f"{text}, before the run ended on {ended[:10]}: it approves no result"
    return text


def _earliest_day(moment: str) -> datetime.date | None:
    """The day that it then was in UTC-12, where each day ends last; None if the text is no time."""
    try:
        return (datetime.datetime.fromisoformat(moment) - datetime.timedelta(hours=12)).date()
    except (ValueError, OverflowError):
        return None


def site_lines(run: RunFacts) -> tuple[str, ...]:
    """A name for each site that has to sign; empty if one launch played or started all clients itself."""
    if run.local:
        return ()
    stated = [tuple(one.client for one in site.data) for site in run.stating if site.data]
    known = {name for names in stated for name in names}
    found = [*stated, *((one.name,) for one in run.clients if one.name not in known)]
    lines = [f"For the site of {some(names, _NAMED)}" for names in found[:_SITES]]
    if len(found) > _SITES:
        lines.append(f"For {counted(len(found) - _SITES, 'more site')}, on a separate sheet")
    return tuple(lines)
