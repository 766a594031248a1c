"""The ledgers that were handed over: their chains, the sites' commitments, and what they hold paid."""

from dataclasses import dataclass
from pathlib import Path

from fl_dp.accounting.ledger.accounts import Account
from fl_dp.errors import ConfigError
from fl_dp.statements import Statement, commitment
from fl_dp.verify.check import Check, Evidence
from fl_dp.verify.claims import Charges, Claim, merged
from fl_dp.verify.findings import Found, counted, harmless
from fl_dp.verify.ledger_file import LedgerFile, read_ledger
from fl_dp.verify.reading import is_there
from fl_dp.verify.stated import signed_texts

_LOWERED = (
    "the ledger, which was paid before every step, holds other charges: they were changed in this folder, "
    "or this is not the ledger of these data"
)


def _run(evidence: Evidence, found: Found) -> None:
    if not evidence.ledgers:
        own = evidence.folder.ledgers
        where = f"; those of a run on one machine lie in it: --ledger {own}" if is_there(own) else ""
        found.not_given(f"a ledger{where}", "what was really paid for is known from this folder alone")
        return
    ledgers = [one for path in evidence.ledgers if (one := _sound(path, found)) is not None]
    opened = _open_commitments(evidence, ledgers, found)
    if evidence.summary is not None:
        _compare_with_summary(evidence.summary, ledgers, found)
    if ledgers and not found.any_differ:
        entries = sum(len(one.rows) for one in ledgers)
        found.agrees(
            f"{counted(len(ledgers), 'ledger')} of {entries} entries: no chain is broken, "
            f"{counted(opened, 'commitment')} opened, and the run's charges are those that were paid"
        )


def _sound(path: Path, found: Found) -> LedgerFile | None:
    try:
        return read_ledger(path)
    except ConfigError as error:
        found.differs(str(error).rstrip("."), "", "nothing that this ledger says can be relied on")
        return None


@dataclass(frozen=True, slots=True)
class _Paid:
    """What a ledger's account has paid, all in all, up to its last round of the run."""

    whose: str
    spent: Charges


def _open_commitments(evidence: Evidence, ledgers: list[LedgerFile], found: Found) -> int:
    """How many were opened. A salt that was not handed over opens nothing, which is no contradiction."""
    if not is_there(evidence.folder.statements):
        return 0
    count = 0
    for number, one in enumerate(signed_texts(evidence.folder.statements), 1):
        where = f"statements.json, statement {number}"
        try:
            said = Statement.from_text(one.text)
        except ConfigError:
            continue  # the check `statements` says so
        holders = [ledger for ledger in ledgers if said.commitment in ledger.openings]
        if not holders:
            names = ", ".join(harmless(account.client) for account in said.accounts[:3])
            found.not_given(
                f"what opens the commitment of client {names}", "its ledger, with statements.jsonl"
            )
            continue
        count += _opens(said, holders[0], where, found)
    return count


def _opens(said: Statement, ledger: LedgerFile, where: str, found: Found) -> bool:
    opening = ledger.openings[said.commitment]
    try:
        holds = commitment(bytes.fromhex(opening.salt), opening.head) == said.commitment
    except ValueError:
        holds = False
    accounts = ledger.accounts(opening.head) if holds else None
    if not holds:
        found.differs(
            "the commitment is not that of this salt and head", where, "it stands for another ledger"
        )
        return False
    if accounts is None:
        found.differs(
            "the head that was committed to is no entry of this ledger", where,
            "the ledger was written anew since, or is another one",
        )  # fmt: skip
        return False
    left = [merged(account.spent()) for account in accounts if account.retired is None]
    for account in said.accounts:
        spent = merged(account.spent)
        if spent in left:
            left.remove(spent)
        else:
            found.differs(
                f"client {harmless(account.client)} states charges that no account of the ledger had then",
                where,
                _LOWERED,
            )  # fmt: skip
    return True


def _compare_with_summary(summary: Claim, ledgers: list[LedgerFile], found: Found) -> None:
    """Each account that has paid for rounds of this run is one of its clients, with all that it has paid."""
    run = summary.raw.get("run")
    if not run:
        found.not_given("the run's name in ledgers", "an older fl_dp did not write it")
        return
    claimed = [one.charges for one in summary.clients.values() if one.charges]
    paid = [
        one
        for ledger in ledgers
        for account in ledger.accounts() or ()
        for one in _paid_in(account, str(run))
    ]
    if not paid:
        found.note("no account of the ledgers has paid for this run", means="they are of other runs")
    for one in paid:
        if one.spent in claimed:
            claimed.remove(one.spent)
        else:
            found.differs(
                f"{sum(entry.steps for entry in one.spent)} steps were paid by {harmless(one.whose)}",
                "summary.json has no client with these charges", _LOWERED,
            )  # fmt: skip


def _paid_in(account: Account, run: str) -> list[_Paid]:
    """Up to its last round in the run; nothing where it has none."""
    rounds = [place for place, paid in enumerate(account.rounds) if paid.run == run]
    if not rounds:
        return []
    return [_Paid(account.dataset, merged(paid.entry for paid in account.rounds[: rounds[-1] + 1]))]


CHECK = Check(place=9, run=_run)
