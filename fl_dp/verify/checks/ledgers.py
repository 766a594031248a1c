"""The given ledgers: their chains, the sites' commitments, and their payments."""

from collections import deque
from dataclasses import dataclass
from pathlib import Path

from fl_dp.accounting.events import merge
from fl_dp.accounting.ledger.accounts import Account, LedgerRound
from fl_dp.clean_text import clean
from fl_dp.errors import ConfigError
from fl_dp.records import total_steps
from fl_dp.reporting.reports import ClientReport, RoundReport, Summary
from fl_dp.reporting.wording import counted
from fl_dp.statements import Statement, commitment, stated_in
from fl_dp.verify.check import Check, Evidence, Found
from fl_dp.verify.checks.site_metrics import is_of_test_records
from fl_dp.verify.claims import Charges, Claim, missing, shown
from fl_dp.verify.independent import can_resolve, epsilon_of
from fl_dp.verify.ledger_file import LedgerFile, read_ledger
from fl_dp.verify.reading import is_there, read_json

_LOWERED = (
    "the ledger, which is paid before every step, holds other charges: they were changed in this folder, or "
    "this is the ledger of other data"
)
_TAKEN_OUT = (
    "the last line is of this round or a later one, and does not count this payment: lines were changed, or "
    "this is the ledger of other data"
)
_MORE = "a round was begun that has no line: what counts is the ledger, not the page or rounds.jsonl"


def _run(evidence: Evidence, found: Found) -> None:
    if not evidence.ledgers:
        own = evidence.folder.ledgers
        where = f"; this run was on one machine, and its own is here: --ledger {own}" if is_there(own) else ""
        found.not_given(f"a ledger{where}", "only this folder says what was paid")
        return
    ledgers = [one for path in evidence.ledgers if (one := _sound(path, found)) is not None]
    for account in (account for one in ledgers for account in one.accounts()):
        if len({(e.sample_rate, e.noise_multiplier) for e in account.spent()}) > 1:
            found.note(
                f"{clean(account.dataset)}: its rounds differ in rate or noise",
                means="its epsilon holds only if both were fixed without looking at earlier results",
            )
    opened = _open_commitments(evidence, ledgers, found)
    if evidence.summary is not None:
        paid = _compare_with_summary(evidence.summary, ledgers, _who_failed(evidence), found)
    else:
        paid = ""
        _compare_with_rounds(evidence, ledgers, found)
    if ledgers and not found.any_differ:
        entries = sum(len(one.rows) for one in ledgers)
        found.agrees(
            f"{counted(len(ledgers), 'ledger')} of {counted(entries, 'entry', 'entries')}: no chain is "
            f"broken, {counted(opened, 'commitment')} opened{paid}"
        )


def _sound(path: Path, found: Found) -> LedgerFile | None:
    try:
        return read_ledger(path)
    except ConfigError as error:
        found.differs(str(error).rstrip("."), "", "this ledger cannot be relied on")
        return None


@dataclass(frozen=True, slots=True)
class _Paid:
    """The payments of an account: up to its last round of the run, until now, and for the run."""

    whose: str
    spent: Charges
    until_now: Charges
    of_run: Charges


def _open_commitments(evidence: Evidence, ledgers: list[LedgerFile], found: Found) -> int:
    """The number of opened commitments. A missing salt opens nothing, and contradicts nothing."""
    if not is_there(evidence.folder.statements):
        return 0
    count = 0
    for number, one in enumerate(stated_in(read_json(evidence.folder.statements), "statements.json"), 1):
        where = f"statements.json, statement {number}"
        try:
            said = Statement.from_text(one.text)
        except ConfigError:
            continue  # the check `statements` reports it
        holders = [ledger for ledger in ledgers if said.commitment in ledger.openings]
        if not holders:
            names = ", ".join(clean(account.client) for account in said.accounts[:3])
            found.not_given(
                f"what opens the commitment of client {names}", "its ledger, with statements.jsonl"
            )
            continue
        count += _opens(said, holders[0], where, found)
    return count


def _opens(said: Statement, ledger: LedgerFile, where: str, found: Found) -> bool:
    salt, head = ledger.openings[said.commitment]
    try:
        holds = commitment(bytes.fromhex(salt), head) == said.commitment
    except ValueError:
        holds = False
    if not holds:
        found.differs("the commitment does not match this salt and head", where, "it is of another ledger")
        return False
    book = ledger.book(head)
    if book is None:
        found.differs(
            "the head that was committed to is not an entry of this ledger",
            where,
            "the ledger has since been rewritten, or is another one",
        )
        return False
    if said.one_run_ledger and not book.of_one_run:
        found.differs(
            "states that its ledger was made for this run alone, and not all entries of the ledger say so",
            where,
            "its epsilon counts other runs, too",
        )
    left = [merge(account.spent()) for account in book.accounts() if account.retired is None]
    for account in said.accounts:
        spent = merge(account.spent)
        if spent in left:
            left.remove(spent)
        else:
            found.differs(
                f"client {clean(account.client)} states charges that no account of the ledger had then",
                where,
                _LOWERED,
            )
    return True


@dataclass(frozen=True, slots=True)
class _Since:
    """The rounds of the run that an account paid after those that a line counts. spent: all, with these."""

    whose: str
    rounds: tuple[LedgerRound, ...]
    spent: Charges


def _compare_with_rounds(evidence: Evidence, ledgers: list[LedgerFile], found: Found) -> None:
    """For a killed run, without a summary: compare its ledgers with the last line of rounds.jsonl.

    Only the summary has the run's name, so an account is recognized by its charges: it once held the line's.

    An account of many rounds also once held the charges of a client that missed the last ones. So the clients
    with most steps come first, and each takes the account that has paid least since.
    """
    last = next(iter(deque(evidence.rounds(), maxlen=1)), None)
    if last is None:
        found.not_given(
            "summary.json or a line of rounds.jsonl", "there is nothing to compare the ledgers with"
        )
        return
    left = [one for ledger in ledgers for one in ledger.accounts() if not is_of_test_records(one)]
    for name, client in sorted(last.report.clients.items(), key=lambda one: -total_steps(one[1].charges)):
        if not client.charges:
            continue
        matches = [(since, one) for one in left if (since := _since(one, client.charges)) is not None]
        if not matches:
            found.not_given(
                f"a ledger that ever held the charges of client {clean(name)} in the last line",
                "give its own; the line counts a round that was not answered, and may not be paid for",
            )
            continue
        since, account = min(matches, key=lambda match: len(match[0].rounds))
        left.remove(account)
        _say(name, since, last, found)


def _since(account: Account, charges: Charges) -> _Since | None:
    """None for an account that never held exactly these charges."""
    steps = total_steps(charges)
    for end, paid in enumerate(account.rounds, 1):
        steps -= paid.entry.steps
        if steps < 0:
            return None
        if steps == 0 and merge(one.entry for one in account.rounds[:end]) == charges:
            more = tuple(one for one in account.rounds[end:] if one.run == paid.run)
            spent = merge((*charges, *(one.entry for one in more)))
            return _Since(account.dataset, more, spent)
    return None


def _say(name: str, since: _Since, last: Claim[RoundReport], found: Found) -> None:
    client = last.report.clients[name]
    if not since.rounds:
        found.agrees(
            f"{clean(since.whose)} has paid what client {clean(name)} has spent by the last line, and has "
            "paid for no round since"
        )
        return
    steps = sum(one.entry.steps for one in since.rounds)
    numbers = ", ".join(str(number) for number in sorted({one.server_round for one in since.rounds})[:5])
    what = (
        f"{clean(since.whose)} has paid for {counted(steps, 'step')} more than client {clean(name)} "
        f"has in the last line, for round {numbers}{_epsilon(client, since)}"
    )
    if any(one.server_round <= last.report.round for one in since.rounds):
        found.differs(what, last.of(name), _TAKEN_OUT)
    else:
        found.note(what, last.of(name), _MORE)


def _epsilon(client: ClientReport, since: _Since) -> str:
    delta = client.delta
    if not 0.0 < delta < 1.0 or not can_resolve(since.spent, delta):
        return ""
    together = shown(epsilon_of(since.spent, delta))
    return f": together epsilon {together} at delta {delta:g}, and the line says {shown(client.epsilon)}"


def _who_failed(evidence: Evidence) -> set[str]:
    """The clients with an unanswered round: the server counts it, whether they paid for it or not."""
    return {
        name
        for claim in evidence.claims()
        for name, one in claim.report.clients.items()
        if one.status == "failed"
    }


def _compare_with_summary(summary: Summary, ledgers: list[LedgerFile], failed: set[str], found: Found) -> str:
    """Check that each account that has paid for this run matches a client, with all of its payments.

    Returns what follows if nothing differs; empty if no account has paid.
    """
    claimed = {name: one.charges for name, one in summary.clients.items() if one.charges}
    of_run = {name: one.cost.charges for name, one in summary.clients.items()}
    paid = [
        one
        for ledger in ledgers
        for account in ledger.accounts()
        if not is_of_test_records(account)
        for one in _paid_in(account, summary.run)
    ]
    if not paid:
        found.not_given(
            "what was paid for this run: no account of these ledgers shows any",
            "they are of other runs; give the ledgers that paid for this one",
        )
        return ""
    for one in sorted(paid, key=lambda one: one.spent not in claimed.values()):  # exact matches first
        equal = [name for name, charges in claimed.items() if charges == one.spent]
        name = min(equal, key=lambda name: bool(missing(of_run[name], one.of_run)), default="")
        if name and (lacking := missing(of_run[name], one.of_run)):
            found.differs(
                f"{clean(one.whose)} has paid for {counted(total_steps(lacking), 'step')} of this run that "
                "count here as spent before",
                f"summary.json, client {clean(name)}",
                _LOWERED,
            )
        if not name and (name := _who_counts_more(one, claimed, failed)):
            found.note(
                f"client {clean(name)} is counted with more than {clean(one.whose)} has paid for",
                means="a round that was not answered, or other runs on the same data: this is safe if the "
                "ledger is that client's; it does not say whose it is, so compare the names",
            )
        if name:
            del claimed[name]
        else:
            found.differs(
                f"{clean(one.whose)} has paid for {counted(total_steps(one.spent), 'step')}",
                "summary.json has no client with these charges",
                _LOWERED,
            )
    with_charges = sum(bool(one.charges) for one in summary.clients.values())
    return f"; the charges of {len(paid)} of {counted(with_charges, 'client')} are those that were paid"


def _who_counts_more(paid: _Paid, claimed: dict[str, Charges], failed: set[str]) -> str:
    """A client that counts these payments and more, which has a possible reason; empty if there is none."""
    return next(
        (
            name
            for name, charges in claimed.items()
            if not missing(charges, paid.spent) and (name in failed or not missing(paid.until_now, charges))
        ),
        "",
    )


def _paid_in(account: Account, run: str) -> list[_Paid]:
    """The account's payments, up to its last round in the run; empty if it has no round there."""
    rounds = [place for place, paid in enumerate(account.rounds) if paid.run == run]
    if not rounds:
        return []
    spent = merge(paid.entry for paid in account.rounds[: rounds[-1] + 1])
    of_run = merge(paid.entry for paid in account.rounds if paid.run == run)
    return [_Paid(account.dataset, spent, merge(account.spent()), of_run)]


CHECK = Check(place=9, run=_run)
