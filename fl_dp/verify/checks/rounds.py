"""rounds.jsonl and summary.json: complete, in order, and the last line agrees with the summary."""

import typing
from collections.abc import Mapping
from typing import Any

from fl_dp.clean_text import clean
from fl_dp.errors import ConfigError
from fl_dp.reporting.reports import RunStatus
from fl_dp.reporting.wording import counted
from fl_dp.verify.check import Check, Evidence, Found
from fl_dp.verify.claims import Claim, ClientClaim, round_claims, summary_claim
from fl_dp.verify.reading import CutOffError, is_there

_OF_A_CLIENT = (
    "epsilon", "accountant", "steps", "rounds_left", "status", "reason", "arithmetic", "delta", "budget",
    "sample_rate", "noise_multiplier", "charges", "epsilon_alone",
)  # fmt: skip
_OF_ITS_SETTINGS = ("delta", "budget", "accountant", "sample_rate", "noise_multiplier")
_OF_THE_SAME_CHARGES = ("epsilon", "epsilon_alone", "steps", "arithmetic", *_OF_ITS_SETTINGS)
_OF_THE_PLAN = ("rounds_ahead", "unit")
_OF_AN_ENDED_RUN = ("private", "lost_rounds")
_OF_THE_RUN = ("private", "epsilon", "delta", "federation", "lost_rounds")
_OF_THE_MODEL = ("accuracy", "loss", "metrics")
_CHANGED = "the summary is written from the last round: one of the two was changed"
_OTHER_SETTINGS = (
    "one of the two was changed, or the client joined anew with other settings while the run ended: ask its "
    "site. With a larger delta every epsilon is lower"
)
_STATUSES = typing.get_args(RunStatus)


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
            f"{counted(last.round, 'round')} without a gap; {compared} fields of summary.json agree with the "
            "last line"
        )


def _last_round(evidence: Evidence, found: Found) -> Claim | None:
    """None if there is none, or if an earlier line cannot be read."""
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
        if evidence.summary is None and isinstance(error, CutOffError):
            found.note(str(error).rstrip("."), means="the run was ended while it wrote")
            return last
        found.differs(str(error).rstrip("."), "", "what follows in rounds.jsonl was not looked at")
        return None
    return last


def _summary(evidence: Evidence, found: Found) -> Claim | None:
    if not is_there(evidence.folder.summary):
        found.not_given(
            "summary.json",
            "a run that was not ended has none: its rounds so far were checked. A round that was begun since "
            "is paid for, and counted in no file but the ledgers: give --ledger PATH",
        )
        return None
    try:
        return summary_claim(evidence.folder.summary)
    except ConfigError as error:
        found.differs(str(error).rstrip("."), "", "nothing of the summary was checked")
        return None


def _compare(last: Claim, summary: Claim, found: Found) -> int:
    """The number of compared fields. A field that one of them lacks is from an older fl_dp.

    A run that did not end as planned may have begun one more round, which has no line: clients joined, showed
    their ledgers, or were asked. The check `charges` makes sure that nothing was given back. What no such
    round can change is compared anyway: a status is only the word of whoever wrote the folder.
    """
    as_planned = _ended_as_planned(last, summary, found)
    of_the_run = _OF_THE_RUN if as_planned else _OF_AN_ENDED_RUN
    compared = _compare_fields(of_the_run, last.raw, summary.raw, last.where, found)
    if last.together and not summary.together:
        found.differs("federation is not in summary.json", last.where, _CHANGED)
    elif not as_planned and last.together and summary.together:
        one, other = last.raw["federation"], summary.raw["federation"]
        compared += _compare_fields(_OF_THE_PLAN, one, other, last.where, found)
    of_last = summary.raw.get("model") in ("last", "average") and summary.raw.get("model_round") == last.round
    if of_last and last.raw.get("loss") is not None:
        compared += _compare_fields(_OF_THE_MODEL, last.raw, summary.raw, last.where, found)
    apart = last.clients.keys() - summary.clients.keys()
    if as_planned:
        apart |= summary.clients.keys() - last.clients.keys()
    for name in sorted(apart):
        where = last.where if name in summary.clients else summary.where
        found.differs(f"client {clean(name)} is missing", where, _CHANGED)
    for name in sorted(summary.clients.keys() & last.clients.keys()):
        compared += _compare_client(name, last, summary, as_planned, found)
    return compared


def _ended_as_planned(last: Claim, summary: Claim, found: Found) -> bool:
    """Whether no round can have begun after the last line: it says so, or none was left to begin."""
    status = summary.raw.get("status")
    if status not in _STATUSES:
        found.differs(
            f"status {clean(status)}", summary.where, f"a run ends as one of: {', '.join(_STATUSES)}"
        )
    none_left = last.together is not None and last.together.rounds_ahead == 0
    return status not in ("failed", "budget-exhausted") or none_left


def _compare_client(name: str, last: Claim, summary: Claim, as_planned: bool, found: Found) -> int:
    one, other = last.raw["clients"][name], summary.raw["clients"][name]
    where = last.clients[name].where
    same = last.clients[name].charges == summary.clients[name].charges
    if same:
        _compare_costs(last.clients[name], summary.clients[name], found)
    if as_planned:
        return _compare_fields(_OF_A_CLIENT, one, other, where, found)
    if same:
        return _compare_fields(_OF_THE_SAME_CHARGES, one, other, where, found)
    found.note(
        f"client {clean(name)} has other charges than in the last line", summary.where,
        "one more round was begun and is paid for, or its ledger was asked again, before the run ended",
    )  # fmt: skip
    for key in ("charges", "delta"):  # without these no epsilon can be recomputed
        if one.get(key) is not None and other.get(key) is None:
            found.differs(f"{key} of it is not in summary.json", where, _CHANGED)
    no_part = {"sample_rate", "noise_multiplier"} if other.get("sample_rate") is None else set()
    there = tuple(key for key in _OF_ITS_SETTINGS if key not in no_part)
    return _compare_fields(there, one, other, where, found, _OTHER_SETTINGS)


def _compare_costs(last: ClientClaim, summary: ClientClaim, found: Found) -> None:
    """This run's cost of the client."""
    for key in ("charges", "epsilon", "epsilon_alone"):
        if getattr(last.cost, key) != getattr(summary.cost, key):
            found.differs(f"this run's {key} is another one in summary.json", last.where, _CHANGED)


def _compare_fields(
    names: tuple[str, ...],
    one: Mapping[str, Any],
    other: Mapping[str, Any],
    where: str,
    found: Found,
    means: str = _CHANGED,
) -> int:
    there = [name for name in names if name in one and name in other]
    for name in there:
        if one[name] != other[name]:
            found.differs(f"{name} is another one in summary.json", where, means)
    return len(there)


CHECK = Check(place=3, run=_run)
