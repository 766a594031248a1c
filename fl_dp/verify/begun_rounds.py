"""A killed run has no summary: compares what its ledgers hold beyond the last line of rounds.jsonl."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fl_dp.accounting.ledger.accounts import Account, LedgerRound
from fl_dp.clean_text import clean
from fl_dp.records import total_steps
from fl_dp.reporting.wording import counted
from fl_dp.verify.claims import Charges, Claim, ClientClaim, merged
from fl_dp.verify.findings import Found
from fl_dp.verify.independent import can_resolve, epsilon_of

_TAKEN_OUT = (
    "the last line is of this round or a later one, and does not count what was paid for it: lines were "
    "changed, or this is the ledger of other data"
)
_MORE = "a round was begun that has no line: the ledger counts, and not the page or rounds.jsonl"


@dataclass(frozen=True, slots=True)
class _Since:
    """What an account paid for the run after what a line counts. spent: everything up to there."""

    whose: str
    rounds: tuple[LedgerRound, ...]
    spent: Charges


def compare_with_last_line(last: Claim, accounts: Sequence[Account], found: Found) -> None:
    """Only the summary has the run's name, so an account is known by its charges: it once held the line's.

    An account of many rounds has once held the charges of a client that missed the last ones. So the clients
    with most steps come first, and each takes the account that has paid least since.
    """
    left = list(accounts)
    for client in sorted(last.clients.values(), key=lambda one: -total_steps(one.charges or ())):
        if not client.charges:
            continue
        matches = [(since, one) for one in left if (since := _since(one, client.charges)) is not None]
        if not matches:
            found.not_given(
                f"a ledger that has ever held the charges of client {clean(client.name)} in the last line",
                "hand over its own; a round that was not answered is counted there, and may not be paid for",
            )
            continue
        since, account = min(matches, key=lambda match: len(match[0].rounds))
        left.remove(account)
        _say(client, since, last, found)


def _since(account: Account, charges: Charges) -> _Since | None:
    """None for an account that never held exactly these charges."""
    steps = total_steps(charges)
    for end, paid in enumerate(account.rounds, 1):
        steps -= paid.entry.steps
        if steps < 0:
            return None
        if steps == 0 and merged(one.entry for one in account.rounds[:end]) == charges:
            more = tuple(one for one in account.rounds[end:] if one.run == paid.run)
            spent = merged((*charges, *(one.entry for one in more)))
            return _Since(account.dataset, more, spent)
    return None


def _say(client: ClientClaim, since: _Since, last: Claim, found: Found) -> None:
    if not since.rounds:
        found.agrees(
            f"what client {clean(client.name)} has spent by the last line is what {clean(since.whose)} has "
            "paid, and it has paid for no round since"
        )
        return
    steps = sum(one.entry.steps for one in since.rounds)
    numbers = ", ".join(str(number) for number in sorted({one.server_round for one in since.rounds})[:5])
    what = (
        f"{clean(since.whose)} has paid for {counted(steps, 'step')} more than client {clean(client.name)} "
        f"has in the last line, for round {numbers}{_epsilon(client, since)}"
    )
    if any(one.server_round <= last.round for one in since.rounds):
        found.differs(what, client.where, _TAKEN_OUT)
    else:
        found.note(what, client.where, _MORE)


def _epsilon(client: ClientClaim, since: _Since) -> str:
    delta = client.delta
    if delta is None or not 0.0 < delta < 1.0 or not can_resolve(since.spent, delta):
        return ""
    epsilon = epsilon_of(since.spent, delta)
    costs = f"epsilon {epsilon:.4f}" if math.isfinite(epsilon) else "no epsilon"
    before = "none" if client.epsilon is None else f"{client.epsilon:.4f}"
    return f": together {costs} at delta {delta:g}, and the line says {before}"
