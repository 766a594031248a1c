"""What a client answers to a round, held against what the server asked for and knows."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from flwr.app import Message

from fl_dp.accounting.events import merge
from fl_dp.clean_text import one_line
from fl_dp.errors import FederationError, FlDpError
from fl_dp.federation.server.asking import Asked
from fl_dp.federation.server.client_record import ClientRecord, shows_less
from fl_dp.federation.wire.arrays import ArraySpec, NDArray
from fl_dp.federation.wire.bounds import require_only
from fl_dp.federation.wire.messages import REFUSAL, UPDATE_RECORDS, reply_from_content
from fl_dp.federation.wire.partial_sums import SUM_RECORDS
from fl_dp.federation.wire.send_receive import require_answer
from fl_dp.records import ClientStatus, Entry, LocalUpdate, Refusal, leaving
from fl_dp.reporting.wording import counted

Shown = str | int | float | bool
_SHOWN = tuple(name for name, (_, mark) in leaving(LocalUpdate).items() if mark.shown)

NO_REPLY = "no reply before the round was closed"
TOLERANCE = 1e-6  # of a claimed epsilon: for rounding between machines, not for another mechanism
LOST_STEPS = (
    "its ledger does not show the steps that it held before and took now: it was restored from a backup, "
    "or retired in the middle of the run"
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one client's round.

    arrays: its update, if it is to be averaged. confirmed: the server knows what the round has cost;
    if not, the client must register again before its next round. reported: the numbers of its update that
    are shown, by name. scaled: what its update was multiplied by, where it was longer than an honest one.
    mechanism: that it was asked for in this round, where its shares are not those of the client's others.
    """

    status: ClientStatus
    reason: str = ""
    arrays: Mapping[str, NDArray] | None = None
    confirmed: bool = True
    reported: tuple[tuple[str, Shown], ...] = ()
    scaled: float = 1.0
    mechanism: Entry | None = None

    @property
    def steps(self) -> int:
        """That the update has taken; 0 without one."""
        return int(dict(self.reported).get("steps", 0))


def settle(
    reply: Message | None, question: Asked, expected: Mapping[str, ArraySpec], *, in_group: bool = False
) -> Verdict:
    """Judge a reply (None: there was none) to what a client was asked for, and book its cost on the client:
    what was verified, or all that may have been spent.

    in_group: the reply is one of our own grid's whose update is in a sum. Whatever else is in the reply, the
    answer is a verdict: nothing of it raises.
    """
    client, asked = question.client, question.mechanism
    try:
        answer, problem = _read(reply, question.message, expected, in_group)
        if isinstance(answer, Refusal) and answer.status == "declined":  # nothing was reserved
            client.exhausted |= answer.budget_exhausted
            return Verdict("declined", answer.reason)
        if isinstance(answer, Refusal):
            raise FederationError(answer.reason)
        _check_steps(answer, asked)
        at_least = _with_round(answer, client, asked)
        if shows_less(answer.spent, at_least):
            client.budget.epsilon_of(at_least)  # raises where that cannot be accounted for
            client.count_as_taken(asked.taking(answer.steps), at_least)  # refused when it registers next
            return Verdict("failed", LOST_STEPS, confirmed=False)
        check_claim(answer, client, asked)
    except FlDpError as error:
        client.count_as_spent(asked)
        return Verdict("failed", one_line(str(error)), confirmed=False)
    client.count_as_taken(asked.taking(answer.steps), answer.spent)
    if problem:
        return Verdict("failed", one_line(problem))
    client.rounds += 1
    return Verdict("trained", arrays=answer.arrays, reported=_shown(answer))


def is_update(reply: Message, question: Asked, expected: Mapping[str, ArraySpec]) -> bool:
    """Whether `settle` would find an update in the reply. Nothing is booked."""
    on_a_copy = replace(question, client=replace(question.client))
    return settle(reply, on_a_copy, expected).status == "trained"


def check_claim(update: LocalUpdate, client: ClientRecord, asked: Entry) -> None:
    """Return if the client spent what it says, and no more than it was asked for; else FlDpError says
    which claim does not match.

    Epsilon is recomputed from the mechanism, never taken on trust; without privacy it is infinite. A client
    that took part in another run in between shows steps that the server does not know: its update is dropped,
    and it is asked again.
    """
    if merge(update.spent) != _with_round(update, client, asked):
        raise FederationError("its ledger does not show what it held before and this round, and no more")
    if update.delta != client.profile.delta:
        raise FederationError(f"claims delta {update.delta:g}, said {client.profile.delta:g} before")
    if asked.private:
        _check_epsilon(update, client)
    elif update.epsilon != math.inf:
        raise FederationError(f"claims epsilon {update.epsilon:.6f} for training without protection")


def _check_epsilon(update: LocalUpdate, client: ClientRecord) -> None:
    epsilon = client.budget.epsilon_of(update.spent)
    if not abs(epsilon - update.epsilon) <= TOLERANCE:  # not "> TOLERANCE": NaN must not pass
        raise FederationError(f"claims epsilon {update.epsilon:.6f}, its mechanism costs {epsilon:.6f}")
    if epsilon > client.profile.epsilon:
        raise FederationError(
            f"has spent epsilon {epsilon:.6f}, over its budget of {client.profile.epsilon:g}"
        )


def _shown(update: LocalUpdate) -> tuple[tuple[str, Shown], ...]:
    return tuple((name, getattr(update, name)) for name in _SHOWN)


def _check_steps(update: LocalUpdate, asked: Entry) -> None:
    if not 1 <= update.steps <= asked.steps:
        raise FederationError(f"claims {counted(update.steps, 'step')}, was asked for {asked.steps}")


def _with_round(update: LocalUpdate, client: ClientRecord, asked: Entry) -> tuple[Entry, ...]:
    """What the client is known to have spent, with the steps behind this update."""
    return merge((*client.spent, asked.taking(update.steps)))


def _read(
    reply: Message | None, question: Message, expected: Mapping[str, ArraySpec], in_group: bool
) -> tuple[LocalUpdate | Refusal, str]:
    if reply is None:
        raise FederationError(NO_REPLY)
    content = require_answer(reply, question)
    if REFUSAL not in content:
        require_only(set(content) - SUM_RECORDS if in_group else content, UPDATE_RECORDS)
    return reply_from_content(content, expected)
