"""summary.json, charges, rounds.jsonl and the model's digest agree. A forger can make them agree, too."""

import zipfile
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from fl_dp.clean_text import clean
from fl_dp.errors import ConfigError
from fl_dp.kits.keys import fingerprint
from fl_dp.models.weights_file import load_weights
from fl_dp.reporting.provenance import digested_files, page_digest
from fl_dp.reporting.reports import RoundReport, Summary
from fl_dp.reporting.wording import counted
from fl_dp.verify.check import Check, Evidence, Found
from fl_dp.verify.claims import Charges, Claim, round_claims
from fl_dp.verify.growth import Known, check_end, follow
from fl_dp.verify.reading import CutOffError, check_bounds, is_there, opened
from fl_dp.weights_digest import ties_left_open, weights_digest

_OF_SETTINGS = ("delta", "budget", "accountant", "sample_rate", "noise_multiplier")
_OF_SAME_CHARGES = ("epsilon", "epsilon_alone", "steps", "arithmetic", *_OF_SETTINGS)
_OF_A_CLIENT = (*_OF_SAME_CHARGES, "charges", "rounds_left", "status", "reason")
_OF_THE_RUN = ("private", "epsilon", "delta", "federation", "lost_rounds")
_HOWEVER_ENDED = ("private", "lost_rounds")
_OF_THE_PLAN = ("rounds_ahead", "unit")
_OF_THE_MODEL = ("accuracy", "loss", "metrics")
_CHANGED = "the summary is written from the last round: one of the two was changed"
_OTHER_SETTINGS = (
    "one of the two was changed, or the client joined again with other settings while the run ended: ask its "
    "site. A larger delta lowers every epsilon"
)


def _run(evidence: Evidence, found: Found) -> None:
    try:
        _compare_digest(evidence, found)
    except ConfigError as error:
        found.differs(str(error).rstrip("."), "", "no page can be drawn from these files")
    summary = _summary(evidence, found)
    before = {name: one.before for name, one in summary.report.clients.items()} if summary else {}
    known: dict[str, Known] = {}
    last = _last_round(evidence, before, known, found)
    compared = 0
    if summary is not None:
        check_end(summary, known, found)
        compared = _compare_end(last, summary, found)
        path = evidence.folder.model(private=summary.report.private)
        _compare_model(path, summary.report.digests.get("model"), found)
    if found.any_differ or not (last or summary):
        return
    if known:
        found.agrees(
            f"the charges of {counted(len(known), 'client')} include the steps of every round, and no step "
            "was taken out of an account"
        )
    if last and summary:
        found.agrees(
            f"{counted(last.report.round, 'round')} without a gap; {compared} fields of summary.json agree "
            "with the last line"
        )


def _compare_digest(evidence: Evidence, found: Found) -> None:
    """The digest stands for all files on a printed page; a person, or `--digest`, compares it."""
    for path in digested_files(evidence.folder):
        if is_there(path):
            check_bounds(path, by_line=path == evidence.folder.rounds)
    digest = page_digest(evidence.folder)
    shown = f"the digest of these files is {fingerprint(digest)}"
    if not evidence.digest:
        found.note(shown, means="a page printed from them shows the same; fl-dp verify --digest HEX compares")
    elif evidence.digest == digest:
        found.agrees(f"the digest that was given is that of these files: {fingerprint(digest)}")
    else:
        found.differs(
            f"{shown}, and another one was given",
            "",
            "the page that shows it is of other files, or a file was changed since, perhaps the approval",
        )


def _summary(evidence: Evidence, found: Found) -> Claim[Summary] | None:
    try:
        summary = evidence.read_summary()
    except ConfigError as error:
        found.differs(str(error).rstrip("."), "", "nothing of the summary was checked")
        return None
    if summary is None:
        found.not_given(
            "summary.json",
            "a run that has not ended has none: its rounds so far were checked. A round that was begun since "
            "is paid for, and only the ledgers count it: give --ledger PATH",
        )
        return None
    return Claim(evidence.folder.summary.name, summary)


def _last_round(
    evidence: Evidence, before: Mapping[str, Charges], known: dict[str, Known], found: Found
) -> Claim[RoundReport] | None:
    """The last round; `known` is filled on the way. None without rounds, or if a line cannot be read."""
    path, last, masked = evidence.folder.rounds, None, set[bool]()
    if not is_there(path):
        found.not_given("rounds.jsonl", "what was spent from round to round cannot be followed")
        return None
    try:
        for claim in round_claims(path):
            if claim.report.round != (last.report.round if last else 0) + 1:
                found.differs(
                    f"round {claim.report.round}",
                    claim.where,
                    "rounds are counted from 1 without a gap: lines are missing",
                )
            follow(claim, before, known, found)
            masked |= _check_sum(claim, found)
            last = claim
    except ConfigError as error:
        if evidence.summary is not None or not isinstance(error, CutOffError):
            found.differs(str(error).rstrip("."), "", "the rest of rounds.jsonl was not checked")
            return None
        found.note(str(error).rstrip("."), means="the run ended while it was writing")
    if not all(masked):
        found.note(
            "no masks were used: whoever ran this saw each client's part of its secure sums",
            "rounds.jsonl",
            "against them the epsilon alone holds, not the smaller one",
        )
    if evidence.summary and evidence.summary.masked not in (None, all(masked)):
        found.differs("masked differs in summary.json", "summary.json", _CHANGED)
    return last


def _check_sum(claim: Claim[RoundReport], found: Found) -> set[bool]:
    """Whether masks hid the parts of this round's sum; empty without one. Checks the shares of its noise."""
    summed = claim.report.secure_sum
    if summed is None and claim.report.lost:
        return set()  # masks may or may not have come off
    shares = summed.shares if summed else 1
    for name, client in claim.report.clients.items():
        if client.status == "trained" and client.shares != shares:
            found.differs(
                f"shares {client.shares} of its noise, and the sum of this round has others",
                claim.of(name),
                "the shares of the noise were changed: more shares make a larger epsilon alone",
            )
    return {summed.masked} if summed else set()


def _compare_end(last: Claim[RoundReport] | None, end: Claim[Summary], found: Found) -> int:
    """Compare the summary with the last round. Returns the number of compared fields.

    A run that did not end as planned may have begun one more round, which has no line: clients joined, showed
    their ledgers, or were asked. Only what such a round cannot change is then compared.
    """
    summary, rounds = end.report, last.report.round if last else 0
    if rounds != summary.rounds:
        found.differs(
            f"{counted(summary.rounds, 'round')} in the summary, and {rounds or 'none'} in rounds.jsonl",
            end.where,
            "rounds were cut off or added",
        )
    if last is None or rounds != summary.rounds:
        return 0
    line = last.report
    as_planned = summary.status == "completed" or line.federation.rounds_ahead == 0
    compared = _compare_fields(
        _OF_THE_RUN if as_planned else _HOWEVER_ENDED, line, summary, last.where, found
    )
    if not as_planned:
        compared += _compare_fields(_OF_THE_PLAN, line.federation, summary.federation, last.where, found)
    of_last = summary.model in ("last", "average") and summary.model_round == line.round
    if of_last and line.loss is not None:
        compared += _compare_fields(_OF_THE_MODEL, line, summary, last.where, found)
    for name in sorted(line.clients.keys() ^ summary.clients.keys()):
        if as_planned or name in line.clients:
            where = last.where if name in summary.clients else end.where
            found.differs(f"client {clean(name)} is missing", where, _CHANGED)
    for name in sorted(summary.clients.keys() & line.clients.keys()):
        compared += _compare_client(name, last, summary, as_planned, found)
    return compared


def _compare_client(
    name: str, last: Claim[RoundReport], summary: Summary, as_planned: bool, found: Found
) -> int:
    one, other, where = last.report.clients[name], summary.clients[name], last.of(name)
    same = one.charges == other.charges
    if same and (one.this_run or other.this_run):
        of_cost = ("charges", "epsilon", "epsilon_alone")
        _compare_fields(of_cost, one.cost, other.cost, where, found, whose="this run's ")
    if as_planned or same:
        names = _OF_A_CLIENT if as_planned else _OF_SAME_CHARGES
        return _compare_fields(names, one, other, where, found)
    found.note(
        f"client {clean(name)} has other charges than in the last line",
        "summary.json",
        "before the run ended, one more round was begun and is paid for, or its ledger was asked again",
    )
    no_part = {"sample_rate", "noise_multiplier"} if other.sample_rate is None else set()
    there = tuple(key for key in _OF_SETTINGS if key not in no_part)
    return _compare_fields(there, one, other, where, found, _OTHER_SETTINGS)


def _compare_fields(
    names: tuple[str, ...],
    one: object,
    other: object,
    where: str,
    found: Found,
    means: str = _CHANGED,
    whose: str = "",
) -> int:
    for name in names:
        if getattr(one, name) != getattr(other, name, None):
            found.differs(f"{whose}{name} differs in summary.json", where, means)
    return len(names)


def _compare_model(path: Path, claimed: str | None, found: Found) -> None:
    if not is_there(path) or not claimed:
        found.not_given(path.name if claimed else "a digest of the model", "the model was not compared")
        return

    weights = _weights_of_file(path)
    if weights_digest(weights) != claimed:
        found.differs(
            f"{path.name} has other weights than summary.json says",
            path.name,
            "the model was changed or swapped: this guarantee is not of this model",
        )
    for name, first in sorted(ties_left_open(weights).items()):
        found.note(
            f"{clean(name)} is tied with {clean(first)}",
            path.name,
            "the digest covers the tensors, but not which of two equal ones a second name is tied with; "
            "fl_dp refuses to load a tie that the model does not have",
        )


def _weights_of_file(path: Path) -> dict[str, Tensor]:
    """The tensors in the file; code in it is never run. ConfigError if it holds none."""
    with opened(path) as file:  # a plain file
        try:
            with zipfile.ZipFile(file) as archive:
                packed = any(one.compress_type != zipfile.ZIP_STORED for one in archive.infolist())
        except (zipfile.BadZipFile, ValueError, NotImplementedError):
            raise ConfigError(f"{path.name} is not a model as fl_dp writes them.") from None
    if packed:  # it could expand beyond all memory
        raise ConfigError(f"{path.name} is compressed, which no model of fl_dp is; it was not read.")

    return load_weights(path, path.name)


CHECK = Check(place=2, run=_run)
