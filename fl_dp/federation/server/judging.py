"""What became of a round at every client that was asked: what it has not confirmed counts as spent."""

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from flwr.app import Message

from fl_dp.clean_text import one_line
from fl_dp.errors import FlDpError
from fl_dp.federation.server.aggregation import Update
from fl_dp.federation.server.asking import Asked
from fl_dp.federation.server.registration import Registration
from fl_dp.federation.server.replies import Verdict, settle
from fl_dp.federation.wire.arrays import ArraySpec
from fl_dp.federation.wire.partial_sums import WeightedSum, group_of, noise_shares_of, read_sum

logger = logging.getLogger("fl_dp")

ENDED_WITHIN = "the run was ended before it had answered"


@dataclass(slots=True)
class Judged:
    """A round's updates that stand, alone or in sums, and the verdict on every client that was asked.

    owners: who was asked for each of `updates`, in their order; summed: whose updates are in `sums`.
    """

    updates: list[Update] = field(default_factory=list)
    owners: list[Asked] = field(default_factory=list)
    sums: list[WeightedSum] = field(default_factory=list)
    summed: list[Asked] = field(default_factory=list)
    verdicts: dict[str, Verdict] = field(default_factory=dict)

    @property
    def standing(self) -> int:
        """The number of clients whose updates stand, those in sums included."""
        return len(self.updates) + len(self.summed)


class Judging:
    """registration: told of clients whose round is not confirmed, so that they register again.

    expected: the arrays that clients send back.
    """

    def __init__(self, registration: Registration, expected: Mapping[str, ArraySpec]) -> None:
        self._registration, self._expected = registration, expected

    def judge(self, asked: Sequence[Asked], replies: Iterable[Message]) -> Judged:
        """Hold every reply, or its absence, against what was asked; the cost goes to the clients' records."""
        answers: dict[str, Message] = {}
        for answer in replies:
            answers.setdefault(answer.metadata.reply_to_message_id, answer)
        judged = Judged()
        groups: dict[str, list[tuple[Asked, Message]]] = defaultdict(list)
        for one in asked:
            reply = answers.get(one.message.metadata.message_id)
            group = group_of(reply) if one.in_sum else None  # else a client has made it up
            shares = noise_shares_of(reply) if group is not None and reply else 0  # of a secure sum
            paid = _as_paid(one, shares) if shares else one
            verdict = self._settle(paid, reply, in_group=group is not None)
            if shares:
                verdict = replace(verdict, mechanism=paid.mechanism)
            judged.verdicts[one.client.name] = verdict
            if group is not None and reply and (shares or verdict.arrays is not None):
                groups[group].append((one, reply))  # a secure sum holds its vector, believed or not
            elif verdict.arrays is not None:
                judged.updates.append((verdict.arrays, one.weight))
                judged.owners.append(one)
        for group_of_one_sum in groups.values():
            self._add_sum(judged, group_of_one_sum)
        return judged

    def _settle(self, asked: Asked, reply: Message | None, *, in_group: bool) -> Verdict:
        self._registration.note(asked.client, answered=reply is not None and not reply.has_error())
        verdict = settle(reply, asked, {} if in_group else self._expected, in_group=in_group)
        if not verdict.confirmed:
            self._registration.ask_again(asked.client)
        if verdict.reason:
            logger.warning("client %s %s: %s", asked.client.name, verdict.status, verdict.reason)
        return verdict

    def _add_sum(self, judged: Judged, group: list[tuple[Asked, Message]]) -> None:
        """Add the sum that came for the group; if it cannot be used, none of its updates can."""
        weights = {asked.message.metadata.message_id: asked.weight for asked, _ in group}
        try:
            judged.sums.append(read_sum([reply for _, reply in group], weights, self._expected))
            judged.summed += [asked for asked, _ in group]
            return
        except FlDpError as error:
            reason = one_line(str(error))
        logger.warning("the updates of %d clients are lost: %s", len(group), reason)
        for asked, _ in group:
            verdict = judged.verdicts[asked.client.name]
            if verdict.arrays is not None:
                asked.client.rounds -= 1
                judged.verdicts[asked.client.name] = Verdict("failed", reason, mechanism=verdict.mechanism)


def _as_paid(asked: Asked, shares: int) -> Asked:
    """What was asked for, with the shares of the secure sum that the client took part in.

    They are fewer than were asked for where a member was gone before the sum began.
    """
    return replace(asked, mechanism=replace(asked.mechanism, shares=shares))


def count_unanswered(registration: Registration, asked: Sequence[Asked]) -> dict[str, Verdict]:
    """The run ends within a round: all that were asked have paid for it, or may have.

    It counts on copies of their records: a state that holds these goes on from the round before.
    """
    for one in asked:
        client = replace(one.client)
        client.count_as_spent(one.mechanism)
        registration.clients[client.name] = client
    return {one.client.name: Verdict("failed", ENDED_WITHIN, confirmed=False) for one in asked}
