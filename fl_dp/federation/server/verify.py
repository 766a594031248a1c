"""The outcome of a round: when it is closed, which replies are valid, and what counts as spent.

Every reply is checked against what the server asked for and knows. What a client has not confirmed counts as
spent. A round is closed when all have answered, or when a quorum has answered and a grace time is over
(`Quorum`). So no single site holds up the others.
"""

import logging
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from flwr.app import Message

from fl_dp.accounting.events import merge
from fl_dp.clean_text import one_line
from fl_dp.errors import FederationError, FlDpError
from fl_dp.federation.server.aggregation import Update
from fl_dp.federation.server.ask import Asked
from fl_dp.federation.server.client_record import ClientRecord, shows_less
from fl_dp.federation.server.registration import LEAST_PATIENCE, Registration
from fl_dp.federation.wire.arrays import ArraySpec, NDArray
from fl_dp.federation.wire.bounds import require_only
from fl_dp.federation.wire.messages import REFUSAL, UPDATE_RECORDS, reply_from_content
from fl_dp.federation.wire.partial_sums import SUM_RECORDS, WeightedSum, group_of, noise_shares_of, read_sum
from fl_dp.federation.wire.send_receive import require_answer
from fl_dp.records import ClientStatus, Entry, LocalUpdate, Refusal, leaving
from fl_dp.reporting.console import rounded_up
from fl_dp.reporting.wording import counted

logger = logging.getLogger("fl_dp")

Shown = str | int | float | bool
_SHOWN = tuple(name for name, (_, mark) in leaving(LocalUpdate).items() if mark.shown)

GRACE = 2.0  # times the quorum's seconds, for which the others are waited for
MOST_WORK = 10.0  # the most work of a site, in units of the quorum's: nobody can check its declared size
TOLERANCE = 1e-6  # of a claimed epsilon: covers rounding between machines, but no other mechanism
DECIMALS = 6  # of an epsilon in a refusal, which is rounded up
NO_REPLY = "no reply before the round was closed"
ENDED_WITHIN = "the run ended before it answered"
LOST_STEPS = (
    "its ledger does not show the steps that it held before and took now: it was restored from a backup, "
    "or retired during the run"
)


class Quorum:
    """Decides when to close a round in which not all clients have answered.

    A quorum is updates from more than half of the clients asked, and no fewer than the round needs. When it
    is there, the others get GRACE times the time that it took, and at least LEAST_PATIENCE seconds. A client
    that was asked for more steps than any in the quorum gets proportionally more time, up to MOST_WORK times.
    A later update is paid for and lost; so a majority sets the pace, not the first to answer.

    Only valid updates count. Otherwise refusals, which are quick, would cut off sites that train and have
    paid.

    A site that this run has never asked before gets all of round-timeout: its pace is unknown, and its
    operator may have to approve first. `round-timeout` bounds every wait.

    steps: how many each client was asked for, by name. needed: the number of updates that the round needs.
    counts: whether a client's reply is an update. new: clients never asked before.
    """

    def __init__(
        self,
        steps: Mapping[str, int],
        needed: int,
        counts: Callable[[str, Message], bool],
        new: Collection[str] = (),
    ) -> None:
        self._steps, self._needed, self._counts, self._new = steps, needed, counts, set(new)
        self._judged: dict[str, bool] = {}  # by client, whether its reply counts; until there is a quorum
        self._pace: tuple[float, int] | None = None  # the quorum's seconds, and its largest number of steps

    def noted(self, client: str, reply: Message) -> Message:
        """Note the client's reply; returns it."""
        if self._pace is None:
            self._judged[client] = self._counts(client, reply)
        return reply

    def is_closed(self, missing: Collection[str], waited: float) -> bool:
        """Whether the round is over without the clients that are missing, after so many seconds."""
        if self._pace is None:
            updates = [client for client, counts in self._judged.items() if counts]
            if len(updates) < max((len(self._judged) + len(missing)) // 2 + 1, self._needed):
                return False
            self._pace = waited, max(self._steps[client] for client in updates)
        if self._new & set(missing) or any(waited < self._patience(one, *self._pace) for one in missing):
            return False
        logger.info(
            "%s missing, and the grace period ended after %.1f s", counted(len(missing), "answer"), waited
        )
        return True

    def _patience(self, client: str, seconds: float, steps: int) -> float:
        """How many seconds after its beginning the round waits for the client's answer."""
        more = min(max(1.0, self._steps[client] / steps), MOST_WORK)
        return max(seconds * (1 + GRACE) * more, seconds + LEAST_PATIENCE)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of one client's round.

    arrays: its update, if it is to be averaged. confirmed: the server knows what the round has cost; if not,
    the client must register again before its next round. reported: the numbers of its update that reports
    show, by name. scaled: the factor by which an update was scaled down that was longer than honest ones can
    be. mechanism: this round's, if its shares differ from those of the client's other rounds.
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
        """The number of steps that the update took; 0 without one."""
        return int(dict(self.reported).get("steps", 0))


@dataclass(slots=True)
class RoundResult:
    """A round's valid updates, alone or in sums, and the verdict on every client that was asked.

    owners: the requests for `updates`, in the same order; summed: those whose updates are in `sums`.
    """

    updates: list[Update] = field(default_factory=list)
    owners: list[Asked] = field(default_factory=list)
    sums: list[WeightedSum] = field(default_factory=list)
    summed: list[Asked] = field(default_factory=list)
    verdicts: dict[str, Verdict] = field(default_factory=dict)

    @property
    def standing(self) -> int:
        """The number of clients with valid updates, those in sums included."""
        return len(self.updates) + len(self.summed)


class ReplyVerifier:
    """Verifies the replies of a round.

    registration: asks clients to register again whose round is not confirmed. expected: the arrays that
    clients send back.
    """

    def __init__(self, registration: Registration, expected: Mapping[str, ArraySpec]) -> None:
        self._registration, self._expected = registration, expected

    def judge(self, asked: Sequence[Asked], replies: Iterable[Message]) -> RoundResult:
        """Check every reply, or its absence, against its request; note the cost in the clients' records."""
        answers: dict[str, Message] = {}
        for answer in replies:
            answers.setdefault(answer.metadata.reply_to_message_id, answer)
        result = RoundResult()
        groups: dict[str, list[tuple[Asked, Message]]] = defaultdict(list)
        for one in asked:
            reply = answers.get(one.message.metadata.message_id)
            group = group_of(reply) if one.in_sum else None  # unasked, it is a client's invention
            shares = noise_shares_of(reply) if group is not None and reply else 0  # of a secure sum
            paid = one
            if shares:  # fewer than requested if a member was gone before the sum began
                paid = replace(one, mechanism=replace(one.mechanism, shares=shares))
            verdict = self._settle(paid, reply, in_group=group is not None)
            if shares:
                verdict = replace(verdict, mechanism=paid.mechanism)
            result.verdicts[one.client.name] = verdict
            if group is not None and reply and (shares or verdict.arrays is not None):
                groups[group].append((one, reply))  # its vector is in a secure sum, whatever the verdict
            elif verdict.arrays is not None:
                result.updates.append((verdict.arrays, one.weight))
                result.owners.append(one)
        for group_of_one_sum in groups.values():
            self._add_sum(result, group_of_one_sum)
        return result

    def _settle(self, asked: Asked, reply: Message | None, *, in_group: bool) -> Verdict:
        self._registration.note(asked.client, answered=reply is not None and not reply.has_error())
        verdict, client = settle(reply, asked, {} if in_group else self._expected, in_group=in_group)
        self._registration.update(client)
        if not verdict.confirmed:
            self._registration.ask_again(asked.client)
        if verdict.reason:
            logger.warning("client %s %s: %s", asked.client.name, verdict.status, verdict.reason)
        return verdict

    def _add_sum(self, result: RoundResult, group: list[tuple[Asked, Message]]) -> None:
        """Add the group's sum; if it cannot be used, none of its updates can."""
        weights = {asked.message.metadata.message_id: asked.weight for asked, _ in group}
        try:
            result.sums.append(read_sum([reply for _, reply in group], weights, self._expected))
            result.summed += [asked for asked, _ in group]
            return
        except FlDpError as error:
            reason = one_line(str(error))
        logger.warning("the updates of %d clients are lost: %s", len(group), reason)
        for asked, _ in group:
            verdict = result.verdicts[asked.client.name]
            if verdict.arrays is not None:
                known = self._registration.clients[asked.client.name]
                self._registration.update(replace(known, rounds=known.rounds - 1))
                result.verdicts[asked.client.name] = Verdict("failed", reason, mechanism=verdict.mechanism)


def count_unanswered(registration: Registration, asked: Sequence[Asked]) -> dict[str, Verdict]:
    """Count the round in which the run ends as spent by all that were asked: they may have paid."""
    for one in asked:
        registration.update(one.client.not_confirming(one.mechanism))
    return {one.client.name: Verdict("failed", ENDED_WITHIN, confirmed=False) for one in asked}


def settle(
    reply: Message | None, question: Asked, expected: Mapping[str, ArraySpec], *, in_group: bool = False
) -> tuple[Verdict, ClientRecord]:
    """The verdict on a reply (None: there was none), and the client's record after it.

    The record holds what was verified, or everything that may have been spent. Never raises, whatever the
    reply holds. in_group: our own grid made the reply, and its update is in a sum.
    """
    client, asked = question.client, question.mechanism
    try:
        answer, problem = _read(reply, question.message, expected, in_group)
        if isinstance(answer, Refusal) and answer.status == "declined":  # it reserved nothing
            exhausted = client.exhausted or answer.budget_exhausted
            return Verdict("declined", answer.reason), replace(client, exhausted=exhausted)
        if isinstance(answer, Refusal):
            raise FederationError(answer.reason)
        if not 1 <= answer.steps <= asked.steps:
            raise FederationError(f"claims {counted(answer.steps, 'step')}, was asked for {asked.steps}")
        taken = asked.taking(answer.steps)
        at_least = merge((*client.spent, taken))  # what its ledger must show
        if shows_less(answer.spent, at_least):
            client.budget.epsilon_of(at_least)  # raises if that has no epsilon
            lost = client.having_taken(taken, at_least)  # so that its next registration is refused
            return Verdict("failed", LOST_STEPS, confirmed=False), lost
        _check_claim(answer, client, at_least, private=asked.private)
    except FlDpError as error:
        return Verdict("failed", one_line(str(error)), confirmed=False), client.not_confirming(asked)
    client = client.having_taken(taken, answer.spent)
    if problem:
        return Verdict("failed", one_line(problem)), client
    shown = tuple((name, getattr(answer, name)) for name in _SHOWN)
    verdict = Verdict("trained", arrays=answer.arrays, reported=shown)
    return verdict, replace(client, rounds=client.rounds + 1)


def is_update(reply: Message, question: Asked, expected: Mapping[str, ArraySpec]) -> bool:
    """Whether `settle` would accept the reply as an update."""
    verdict, _ = settle(reply, question, expected)
    return verdict.status == "trained"


def _read(
    reply: Message | None, question: Message, expected: Mapping[str, ArraySpec], in_group: bool
) -> tuple[LocalUpdate | Refusal, str]:
    if reply is None:
        raise FederationError(NO_REPLY)
    content = require_answer(reply, question)
    if REFUSAL not in content:
        require_only(set(content) - SUM_RECORDS if in_group else content, UPDATE_RECORDS)
    return reply_from_content(content, expected)


def _check_claim(
    update: LocalUpdate, client: ClientRecord, expected: tuple[Entry, ...], *, private: bool
) -> None:
    """FederationError, which names the claim, unless the client spent exactly what was `expected`.

    Epsilon is recomputed from the mechanism, never trusted; without privacy it is infinite. If a client took
    part in another run meanwhile, it shows steps that the server does not know. Its update is then dropped,
    and it must register again.
    """
    if merge(update.spent) != expected:
        raise FederationError("its ledger does not show exactly what it held before plus this round")
    if update.delta != client.profile.delta:
        raise FederationError(f"claims delta {update.delta:g}, said {client.profile.delta:g} before")
    if not private:
        if update.epsilon != math.inf:
            claimed = rounded_up(update.epsilon, DECIMALS)
            raise FederationError(f"claims epsilon {claimed} for training without protection")
        return
    epsilon = client.budget.epsilon_of(update.spent)
    if not abs(epsilon - update.epsilon) <= TOLERANCE:  # not "> TOLERANCE": NaN must not pass
        claimed, cost = rounded_up(update.epsilon, DECIMALS), rounded_up(epsilon, DECIMALS)
        raise FederationError(f"claims epsilon {claimed}, its mechanism costs {cost}")
    if epsilon > client.profile.epsilon:
        spent = rounded_up(epsilon, DECIMALS)
        raise FederationError(f"has spent epsilon {spent}, over its budget of {client.profile.epsilon:g}")
