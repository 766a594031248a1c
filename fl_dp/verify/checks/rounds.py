"""rounds.jsonl and summary.json: whole, in order, and the last line is what the summary says."""

from collections.abc import Mapping
from typing import Any

from fl_dp.errors import ConfigError
from fl_dp.verify.check import Check, Evidence
from fl_dp.verify.claims import Claim, round_claims, summary_claim
from fl_dp.verify.findings import Found, counted, harmless
from fl_dp.verify.reading import is_there

_OF_A_CLIENT = (
    "epsilon", "accountant", "steps", "rounds_left", "status", "reason", "arithmetic", "delta", "budget",
    "sample_rate", "noise_multiplier", "charges",
)  # fmt: skip
_OF_THE_RUN = ("private", "epsilon", "delta", "federation", "lost_rounds")
_OF_THE_MODEL = ("accuracy", "loss", "metrics")
_CHANGED = "the summary is written from the last round: one of the two was changed"


def _run(evidence: Evidence, found: Found) -> None:
    last = _last_round(evidence, found)
    summary = _summary(evidence, found)
    if summary is None or last is None:
        if summary is not None and summary.round:
            found.differs(
                f"{counted(summary.round, 'round')} in the summary, and none in rounds.jsonl",
                summary.where, "the rounds were taken out",
            )  # fmt: skip
        return
    if summary.round != last.round:
        found.differs(
            f"{counted(summary.round, 'round')} by the summary, the last line is of round {last.round}",
            last.where, "rounds were cut off or added",
        )  # fmt: skip
        return
    compared = _compare(last, summary, found)
    if not found.any_differ:
        found.agrees(
            f"{counted(last.round, 'round')} without a gap, and summary.json says what the last line does, "
            f"in {compared} fields"
        )


def _last_round(evidence: Evidence, found: Found) -> Claim | None:
    """None where there is none, or where a line before it cannot be read."""
    path = evidence.folder.rounds
    if not is_there(path):
        found.not_given("rounds.jsonl", "what was spent from round to round cannot be followed")
        return None
    last = None
    try:
        for claim in round_claims(path):
            if claim.round != (last.round if last else 0) + 1:
                found.differs(
                    f"round {claim.round}",
                    claim.where,
                    "the rounds are counted from 1 without a gap: lines are missing",
                )
            last = claim
    except ConfigError as error:
        if evidence.summary is None and "cut off" in str(error):
            found.note(str(error).rstrip("."), means="the run was ended while it wrote")
            return last
        found.differs(str(error).rstrip("."), "", "what follows in rounds.jsonl was not looked at")
        return None
    return last


def _summary(evidence: Evidence, found: Found) -> Claim | None:
    if not is_there(evidence.folder.summary):
        found.not_given("summary.json", "a run that was not ended has none: its rounds so far were checked")
        return None
    try:
        return summary_claim(evidence.folder.summary)
    except ConfigError as error:
        found.differs(str(error).rstrip("."), "", "nothing of the summary was checked")
        return None


def _compare(last: Claim, summary: Claim, found: Found) -> int:
    """The number of fields that were compared. What one of the two has not, an older fl_dp did not write."""
    compared = _compare_fields(_OF_THE_RUN, last.raw, summary.raw, last.where, found)
    of_last = summary.raw.get("model") == "last" and summary.raw.get("model_round") == last.round
    if of_last and last.raw.get("loss") is not None:
        compared += _compare_fields(_OF_THE_MODEL, last.raw, summary.raw, last.where, found)
    for name in sorted(summary.clients.keys() ^ last.clients.keys()):
        where = last.where if name in summary.clients else summary.where
        found.differs(f"client {harmless(name)} is missing", where, _CHANGED)
    for name in summary.clients.keys() & last.clients.keys():
        one, other = last.raw["clients"][name], summary.raw["clients"][name]
        compared += _compare_fields(_OF_A_CLIENT, one, other, last.clients[name].where, found)
    return compared


def _compare_fields(
    names: tuple[str, ...], one: Mapping[str, Any], other: Mapping[str, Any], where: str, found: Found
) -> int:
    there = [name for name in names if name in one and name in other]
    for name in there:
        if one[name] != other[name]:
            found.differs(f"{name} is another one in summary.json", where, _CHANGED)
    return len(there)


CHECK = Check(place=3, run=_run)
