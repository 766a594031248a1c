"""The verdict, and all findings, in words for a person or as JSON for a program."""

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from fl_dp.clean_text import clean
from fl_dp.reporting.wording import counted
from fl_dp.verify.check import Evidence, Found, Outcome

# What no site signs, in words, with the fields that these words cover. A test checks that each field of a
# run's files is here, is signed by a site, or follows from signed fields. They are fields of a `Summary`, of
# a `RoundReport` and their parts, of a `ModelDescription` (model.FIELD), or whole files.
UNSIGNED = {
    "which other clients took part": "clients",
    "what the server's operator calls the data": "model.data",
    "the data's columns, classes and form": "model.schema model.classes model.form",
    "the model's name, the loss, the task and the identity of its code": (
        "model.model model.loss model.task model.identity task"
    ),
    "all settings of the server, and how the run was launched": "config.toml resolved.toml launch.toml",
    "noise, rates and clipping bound of this run by themselves, apart from all that was spent": (
        "noise_multiplier max_grad_norm clients.sample_rate clients.noise_multiplier"
    ),
    "what all planned rounds would spend": (
        "clients.planned_epsilon planned_epsilon clients.rounds_left clients.rounds_beyond "
        "federation.rounds_ahead federation.running_out clients.budget_alone"
    ),
    "the rounds: how many, which were lost, who trained in which, and why others did not": (
        "round rounds lost lost_rounds clients.rounds clients.status clients.reason clients.reported "
        "clients.scaled"
    ),
    "whether masks hid the parts of secure sums, and of how many clients each sum was": (
        "masked secure_sum clients.shares"
    ),
    "how the run ended, and why": "status reason",
    "losses and metrics, and of which round the model is": (
        "loss accuracy metrics constant outcomes site_metrics test_accounts suppressed_below model "
        "model_round"
    ),
    "dates and times of the run": "started ended seconds model.date",
    "versions, and the digests of the server's code and config": "versions digests model.version",
    "purpose, operator, legal basis, who gets the model, until when it is kept, who approved and when": (
        "approval.toml"
    ),
}

LISTED = "what no site has signed is listed last"  # by `fl-dp verify`, in the words of UNSIGNED
_WIDTH = 12
_MOST_OF_A_LINE = 4096  # characters; names in a line are already cut, but the name of a file is not


def agrees(results: Sequence[Found]) -> bool:
    """Whether nothing differs."""
    return not any(one.outcome is Outcome.DIFFERS for result in results for one in result.findings)


def verdict(results: Sequence[Found], evidence: Evidence) -> str:
    """What can be believed and what not, in one line."""
    wrong = sum(one.outcome is Outcome.DIFFERS for result in results for one in result.findings)
    if wrong:
        do = "does" if wrong == 1 else "do"
        return f"DIFFERS: {counted(wrong, 'thing')} above {do} not agree. Do not sign."
    checked = any(one.outcome is Outcome.AGREES for result in results for one in result.findings)
    if not checked:
        return "Nothing could be checked: no file with anything to check was given."
    return f"{_mark(evidence)}{_authenticity(results, evidence)}"


def unsigned(results: Sequence[Found], evidence: Evidence) -> tuple[str, ...]:
    """What no site signs, if the verdict says that it is listed; else empty."""
    return tuple(UNSIGNED) if LISTED in verdict(results, evidence) else ()


def _mark(evidence: Evidence) -> str:
    summary = evidence.summary
    return "" if summary is None or summary.private else "NOT PRIVATE, and "


def _authenticity(results: Sequence[Found], evidence: Evidence) -> str:
    signed = {name for result in results for name, known in result.signed.items() if known}
    everybody = set(evidence.summary.clients) if evidence.summary else set()
    if not signed:
        return (
            "consistent, not authenticated: what was given agrees with itself. Whoever can write this folder "
            "could have rewritten all of it. Only the sites' signatures, checked by a roster that you trust, "
            "can show that nobody did."
        )
    whose = f"the authority's roster of {evidence.roster.federation}" if evidence.roster else "the roster"
    if evidence.summary is None:
        return (
            f"consistent, not authenticated: what was signed with keys of {whose} could not be compared, "
            "because there is no summary.json."
        )
    if signed >= everybody:
        return (
            f"authentic: every client's own site has signed, with its key in {whose}, the name of its data, "
            f"what it says they have spent, and the model. All else agrees; {LISTED}."
        )
    missing = len(everybody - signed)
    return (
        f"authentic for {counted(len(signed), 'client')} by {whose}; consistent, not authenticated, for "
        f"{counted(missing, 'client')} that {'has' if missing == 1 else 'have'} not signed; {LISTED}."
    )


def in_words(results: Sequence[Found], width: int = 0) -> Iterator[str]:
    """Each finding, with its place and meaning below. width: see `wrapped`."""
    for result in results:
        for one in result.findings:
            start = f"{one.outcome:<{_WIDTH - 2}} {result.name:<{_WIDTH}} "
            yield from wrapped(one.what, width, start)
            for more in (one.where, one.means):
                if more:
                    yield from wrapped(more, width, " " * len(start))


def wrapped(text: str, width: int, start: str = "") -> list[str]:
    """The text, clean, in lines of a terminal. width: in columns; 0 for one line. start: before the first."""
    line = clean(text, _MOST_OF_A_LINE)
    if width <= 2 * len(start):
        return [start + line]
    return textwrap.wrap(line, width, initial_indent=start, subsequent_indent=" " * len(start))


def to_json(results: Sequence[Found], evidence: Evidence) -> dict[str, Any]:
    return {
        "run": str(evidence.folder.path),
        "agrees": agrees(results),
        "verdict": verdict(results, evidence),
        "signed by no site": list(unsigned(results, evidence)),
        "authority": evidence.roster.authority if evidence.roster else None,
        "checks": [
            {
                "check": result.name,
                "findings": [
                    {key: str(value) for key, value in asdict(one).items()} for one in result.findings
                ],
            }
            for result in results
        ],
        "authentic": sorted(name for result in results for name, known in result.signed.items() if known),
    }
