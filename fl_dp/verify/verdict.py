"""The verdict, and all findings, in words for a person or as JSON for a program."""

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from fl_dp.clean_text import clean
from fl_dp.reporting.wording import counted
from fl_dp.verify.check import Checked, Evidence, Outcome

# What no site has signed of a run. Beside the words are the fields that they cover: a test checks that each
# field of a run's files is here, is signed by a site, or follows from fields that are.
# Fields of a `Summary`, a `RoundReport` and their parts; of a `ModelDescription`, as model.FIELD; or a file.
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
_MOST_OF_A_LINE = 4096  # characters; names in it are already cut, but a file's own is not


def agrees(results: Sequence[Checked]) -> bool:
    """Whether nothing differs."""
    return not any(one.outcome is Outcome.DIFFERS for result in results for one in result.findings)


def verdict(results: Sequence[Checked], evidence: Evidence) -> str:
    """What may be believed, and what may not, in a line."""
    wrong = sum(one.outcome is Outcome.DIFFERS for result in results for one in result.findings)
    if wrong:
        do = "does" if wrong == 1 else "do"
        return f"DIFFERS: {counted(wrong, 'thing')} above {do} not agree. Do not sign."
    checked = any(one.outcome is Outcome.AGREES for result in results for one in result.findings)
    if not checked:
        return "Nothing could be checked: the files that say something were not given."
    return f"{_mark(evidence)}{_authenticity(results, evidence)}"


def unsigned(results: Sequence[Checked], evidence: Evidence) -> tuple[str, ...]:
    """What no site signs, to be listed last where the verdict says so."""
    return tuple(UNSIGNED) if LISTED in verdict(results, evidence) else ()


def _mark(evidence: Evidence) -> str:
    summary = evidence.summary
    return "" if summary is None or summary.private else "NOT PRIVATE, and "


def _authenticity(results: Sequence[Checked], evidence: Evidence) -> str:
    signed = {name for result in results for name, known in result.signed.items() if known}
    everybody = set(evidence.summary.clients) if evidence.summary else set()
    if not signed:
        return (
            "consistent, not authenticated: what was given agrees with itself. Whoever can write this folder "
            "could have rewritten all of it; only the sites' signatures, by a roster that you trust, can "
            "show that nobody did."
        )
    whose = f"the authority's roster of {evidence.roster.federation}" if evidence.roster else "the roster"
    if evidence.summary is None:
        return (
            f"consistent, not authenticated: what was signed, by {whose}, could be held against nothing, "
            "because there is no summary.json."
        )
    if signed >= everybody:
        return (
            f"authentic: every client's own site has signed what it calls its data, what it says they have "
            f"spent, and the model, by {whose}, and all else agrees; {LISTED}."
        )
    missing = len(everybody - signed)
    return (
        f"authentic for {counted(len(signed), 'client')} by {whose}; consistent, not authenticated, for "
        f"{counted(missing, 'client')} that {'has' if missing == 1 else 'have'} not signed; {LISTED}."
    )


def in_words(results: Sequence[Checked], width: int = 0) -> Iterator[str]:
    """Each finding, with its place and meaning below. width: of a terminal, to fold lines for."""
    for result in results:
        for one in result.findings:
            start = f"{one.outcome:<{_WIDTH - 2}} {result.name:<{_WIDTH}} "
            yield from _folded(one.what, start, width)
            for more in (one.where, one.means):
                if more:
                    yield from _folded(more, " " * len(start), width)


def _folded(text: str, start: str, width: int) -> list[str]:
    line = clean(text, _MOST_OF_A_LINE)
    if width < 2 * len(start):
        return [start + line]
    return textwrap.wrap(line, width, initial_indent=start, subsequent_indent=" " * len(start))


def to_json(results: Sequence[Checked], evidence: Evidence) -> dict[str, Any]:
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
