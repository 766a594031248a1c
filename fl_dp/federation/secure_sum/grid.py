"""A grid whose rounds are secure sums: five stages with the members, one sum for the strategy.

To the strategy it is a grid that adds up (`wire/partial_sums.py`): the strategy asks every client for a
round, and gets each client's report and one sum in integers. The grid begins an attempt with all that were
asked. A member lost before the masks has paid nothing; the others begin another attempt, with new keys, for
the same round. A member lost later is a drop-out. A lie about key shares costs the round; the member whose
key failed is named as suspected, with those who opened it.
"""

import logging
import math
import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
from flwr.app import Error, Message, MessageType, RecordDict
from flwr.common.constant import ErrorCode

from fl_dp.clean_text import one_line
from fl_dp.config.run import RunConfig
from fl_dp.errors import FederationError, FlDpError
from fl_dp.federation.secure_sum.attempt import Attempt
from fl_dp.federation.secure_sum.limits import checked_shares
from fl_dp.federation.secure_sum.summing import SecureSum, SumLostError
from fl_dp.federation.secure_sum.terms import ATTEMPT_DIGITS, MODULUS, Head
from fl_dp.federation.secure_sum.vector import SAMPLER, grid_of, unflat
from fl_dp.federation.secure_sum.wire import common_plan
from fl_dp.federation.security import security_event
from fl_dp.federation.wire.arrays import NDArray
from fl_dp.federation.wire.messages import (
    ARRAYS,
    NO_ARRAYS,
    array_record,
    plan_only,
    plan_to_content,
    refusal_to_content,
    set_metadata,
)
from fl_dp.federation.wire.partial_sums import make_group, summed_names
from fl_dp.federation.wire.send_receive import BaseGrid, GridOver
from fl_dp.records import Refusal, RoundPlan
from fl_dp.weights_digest import weights_digest

logger = logging.getLogger("fl_dp")

Shapes = Mapping[str, tuple[int, ...]]


class SecureGrid(GridOver):
    """below: the grid over which members are asked."""

    def __init__(self, below: BaseGrid, config: RunConfig) -> None:
        super().__init__(below)
        self.adds_up, self._config = True, config
        self._replies: dict[str, Message] = {}
        self._asked: dict[str, Message] = {}  # by message id, in the current round
        self._shapes: Shapes = {}  # of the arrays in it
        self._number, self._until = 0, 0.0

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """A round is a sum of all that are asked in one call; other messages go to the grid below."""
        sent = list(messages)
        rounds = [one for one in sent if one.metadata.message_type == MessageType.TRAIN]
        others = [one for one in sent if one.metadata.message_type != MessageType.TRAIN]
        ids = list(super().push_messages(others)) if others else []
        if rounds:
            for one in rounds:
                self._number += 1
                set_metadata(one, message_id=f"sum-{self._number}")
            self._asked, self._replies = {one.metadata.message_id: one for one in rounds}, {}
            self._shapes = _shapes_of(rounds[0].content)
            self._until = time.monotonic() + self._config.round_timeout
        return [*ids, *(one.metadata.message_id for one in rounds)]

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """The replies so far. Those of a round come together, when its sum is over: this waits for it."""
        wanted = set(message_ids)
        if wanted & self._asked.keys():
            self._round()
        others = wanted - self._replies.keys()
        found = list(super().pull_messages(others)) if others else []
        return [*found, *(self._replies.pop(one) for one in wanted & self._replies.keys())]

    def _round(self) -> None:
        """Make attempts until one gives a sum or is lost after payment, or members or time are too few."""
        left = dict[str, Message]()
        for message in list(self._asked.values()):
            site = self.site_of(message.metadata.dst_node_id)
            if site is None:
                self._gone(message, "is no longer connected")
            else:
                left[site.key] = message
        while left:  # each failed attempt leaves somebody out
            attempt = self._begin(left)
            if attempt is None:
                return
            try:
                attempt.play()
                self._answer(attempt, left, attempt.sums.total(), "")
                return
            except SumLostError as error:
                if error.paid:
                    for name in attempt.sums.suspected:
                        security_event("suspected", one_line(str(error)), who=name)
                    self._answer(attempt, left, None, one_line(str(error)))
                    return
                logger.info("%s The others start again.", one_line(str(error)))
            for key, reason in attempt.sums.dropped.items():
                self._refuse(left.pop(key), attempt.refusals.get(key), reason)

    def _begin(self, members: Mapping[str, Message]) -> Attempt | None:
        """An attempt with these members; None, and they pay nothing, if they or the time are not enough."""
        config, names = self._config, dict[str, str]()
        for key, message in members.items():
            site = self.site_of(message.metadata.dst_node_id)
            names[key] = site.name if site else key[:16]
        try:
            if time.monotonic() >= self._until:
                raise FederationError("round-timeout is over")
            shares = checked_shares(len(members), config.secure_dropouts, config.secure_colluders)
            asked = {key: _asked(one.content, shares) for key, one in members.items()}
            plan, content = next(iter(asked.values()))
            head = proposed_head(
                plan,
                {name: array.numpy() for name, array in array_record(content, ARRAYS).items()},
                numbers=sum(map(math.prod, self._shapes.values())),
                members=len(members),
                dropouts=config.secure_dropouts,
                colluders=config.secure_colluders,
            )
            sums = SecureSum(head, names)
        except FlDpError as error:
            for message in members.values():
                self._refuse(message, None, str(error))
            return None
        first = next(iter(members.values())).metadata
        return Attempt(
            self._below,
            sums,
            {key: one.metadata.dst_node_id for key, one in members.items()},
            {key: content for key, (_, content) in asked.items()},
            first.group_id,
            self._until,
        )

    def _answer(
        self, attempt: Attempt, members: Mapping[str, Message], total: NDArray | None, lost: str
    ) -> None:
        """Reply with the members' reports, as a group with or without its sum.

        A member that has masked has paid. Another may have paid: its refusal says so, or nobody knows, and
        the reply is an error.
        """
        reports = {members[site].metadata.message_id: report for site, report in attempt.reports.items()}
        for content in reports.values():
            content[ARRAYS] = NO_ARRAYS
        for site, message in members.items():
            if site in attempt.reports:
                continue
            if site in attempt.refusals:
                self._reply(message, attempt.refusals[site])
            else:
                self._gone(message, attempt.sums.dropped.get(site, "it did not answer"))
        if reports:
            arrays = None if total is None else unflat(total, self._shapes)
            shares = attempt.sums.head.shares
            make_group(reports, list(reports), arrays, shares=shares, masked=True, lost=lost)
        for message_id, content in reports.items():
            self._reply(self._asked[message_id], content)

    def _refuse(self, message: Message, refusal: RecordDict | None, reason: str) -> None:
        """Reply for a client that was never asked to mask, so it has paid nothing."""
        declined = Refusal("declined", f"not in the secure sum, and nothing paid: {one_line(reason)}")
        self._reply(message, refusal or refusal_to_content(declined))

    def _gone(self, message: Message, reason: str) -> None:
        self._reply(message, Error(ErrorCode.NODE_UNAVAILABLE, one_line(reason)))

    def _reply(self, message: Message, answer: RecordDict | Error) -> None:
        self._replies[message.metadata.message_id] = Message(answer, reply_to=message)
        del self._asked[message.metadata.message_id]


def proposed_head(
    plan: RoundPlan,
    weights: Mapping[str, NDArray],
    *,
    numbers: int,
    members: int,
    dropouts: int,
    colluders: int,
) -> Head:
    """The head of a new attempt. plan: any member's, as they differ only in batches; weights: sent to all.

    numbers: length of a member's vector. ConfigError if no grid is fine enough for the noise.
    """
    grid = grid_of(plan.max_grad_norm, plan.noise_multiplier, plan.shares, numbers)
    return Head(
        run=plan.run,
        server_round=plan.server_round,
        attempt=secrets.token_hex(ATTEMPT_DIGITS // 2),
        plan=common_plan(plan),
        weights=weights_digest(weights),
        max_grad_norm=plan.max_grad_norm,
        sensitivity=grid.sensitivity,
        noise_multiplier=plan.noise_multiplier,
        spacing=grid.spacing,
        levels=grid.levels,
        numbers=numbers,
        share_deviation=grid.share_deviation,
        modulus=MODULUS,
        sampler=SAMPLER,
        clients=members,
        dropouts=dropouts,
        colluders=colluders,
        threshold=members - dropouts,  # the largest: masks hold against the most colluders
    )


def _asked(content: RecordDict, shares: int) -> tuple[RoundPlan, RecordDict]:
    """The round's plan for a sum with so many shares of noise, and the message that asks for it."""
    plan = replace(plan_only(content), shares=shares)
    return plan, plan_to_content(plan, array_record(content, ARRAYS))


def _shapes_of(content: RecordDict) -> Shapes:
    """The shapes of the arrays that are added up, by name; a complex number counts as two."""
    weights = array_record(content, ARRAYS)
    kinds = {name: np.dtype(weights[name].dtype).kind for name in summed_names(content)}
    return {
        name: (*weights[name].shape, 2) if kind == "c" else tuple(weights[name].shape)
        for name, kind in kinds.items()
    }
