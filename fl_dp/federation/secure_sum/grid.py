"""A grid whose rounds are secure sums: five stages with the members, one sum for the strategy.

To the strategy it is a grid that adds up (`wire/partial_sums.py`): the strategy asks every client for a
round, and gets each client's report and one sum in integers. The grid begins an attempt with all that were
asked. A member lost before the masks has paid nothing; the others then
begin another attempt, with new keys, for the same round. A member lost later is a drop-out. One that lies
about key shares costs a round; whose key failed is named as suspected, with those who opened it.
"""

import logging
import math
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from flwr.app import Error, Message, MessageType, RecordDict
from flwr.common.constant import ErrorCode
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid

from fl_dp.clean_text import one_line
from fl_dp.config.run import RunConfig
from fl_dp.errors import FlDpError
from fl_dp.federation.secure_sum.attempt import Attempt, Turn
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
)
from fl_dp.federation.wire.partial_sums import make_group, summed_names
from fl_dp.federation.wire.send_receive import BaseGrid, give_up, sites_of
from fl_dp.kits.roster import Site
from fl_dp.records import Refusal, RoundPlan
from fl_dp.weights_digest import weights_digest

logger = logging.getLogger("fl_dp")

Shapes = Mapping[str, tuple[int, ...]]

_LOOK_SECONDS = 0.02  # between two polls of a stage
_PULL_SECONDS = 0.5  # the longest pull while a sum is under way


class SecureGrid(BaseGrid):
    """grid: the underlying grid. site_of: the site at a node."""

    adds_up = True

    def __init__(self, grid: Grid, config: RunConfig, site_of: Callable[[int], Site | None]) -> None:
        self._grid, self._config, self._site_of = grid, config, site_of
        self._replies: dict[str, Message] = {}
        self._asked: dict[str, Message] = {}  # by message id, in the current round
        self._shapes: Shapes = {}  # of the arrays in it
        self._turn: Turn | None = None
        self._number, self._until = 0, 0.0

    def set_run(self, run: Any) -> None:
        self._grid.set_run(run)

    @property
    def run(self) -> Any:
        return self._grid.run

    @property
    def sites(self) -> Collection[str] | None:
        return sites_of(self._grid)

    def site_at(self, node: int) -> str | None:
        site = self._site_of(node)
        return site.name if site else None

    def give_up(self, message_ids: Iterable[str]) -> None:
        """Give up all messages but those of a sum, which ends by itself."""
        give_up(self._grid, set(message_ids) - self._asked.keys())

    def get_node_ids(self) -> Iterable[int]:
        return self._grid.get_node_ids()

    def get_nodes(self) -> Iterable[NodeInfo]:
        return self._grid.get_nodes()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """A round begins a sum of all that are asked in one call; other messages go to the grid below."""
        sent = list(messages)
        rounds = [one for one in sent if one.metadata.message_type == MessageType.TRAIN]
        others = [one for one in sent if one.metadata.message_type != MessageType.TRAIN]
        ids = list(self._grid.push_messages(others)) if others else []
        if rounds:
            for one in rounds:
                self._number += 1
                one.metadata.__dict__["_message_id"] = f"sum-{self._number}"
            self._asked, self._replies = {one.metadata.message_id: one for one in rounds}, {}
            self._shapes = _shapes_of(rounds[0].content)
            self._until = time.monotonic() + self._config.round_timeout
            self._turn = self._round()
        return [*ids, *(one.metadata.message_id for one in rounds)]

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """The replies so far; advances the sum meanwhile."""
        wanted = set(message_ids)
        others = [one for one in wanted if one not in self._asked and one not in self._replies]
        found = list(self._grid.pull_messages(others)) if others else []
        until = time.monotonic() + _PULL_SECONDS
        while self._turn is not None and wanted & self._asked.keys() and time.monotonic() < until:
            if next(self._turn, self) is self:
                self._turn = None
            else:
                time.sleep(_LOOK_SECONDS)
        return [*found, *(self._replies.pop(one) for one in wanted & self._replies.keys())]

    def _round(self) -> Turn:
        """Make attempts until one gives a sum, or is lost after paying, or too few members are left."""
        left = dict[str, Message]()
        for message in list(self._asked.values()):
            site = self._site_of(message.metadata.dst_node_id)
            if site is None:
                self._gone(message, "is not there any more")
            else:
                left[site.key] = message
        while left:  # each failed attempt leaves somebody out
            attempt = self._begin(left)
            if attempt is None:
                return
            try:
                yield from attempt.play()
                self._answer(attempt, left, attempt.sums.total(), "")
                return
            except SumLostError as error:
                if error.paid:
                    for name in attempt.sums.suspected:
                        security_event("suspected", one_line(str(error)), who=name)
                    self._answer(attempt, left, None, one_line(str(error)))
                    return
                logger.info("%s Others begin again.", one_line(str(error)))
            for key, reason in attempt.sums.dropped.items():
                self._refuse(left.pop(key), attempt.refusals.get(key), reason)

    def _begin(self, members: Mapping[str, Message]) -> Attempt | None:
        """An attempt with these members; None if they are too few, and then they pay nothing."""
        config, names = self._config, dict[str, str]()
        for key, message in members.items():
            site = self._site_of(message.metadata.dst_node_id)
            names[key] = site.name if site else key[:16]
        try:
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
            self._grid,
            sums,
            {key: one.metadata.dst_node_id for key, one in members.items()},
            {key: content for key, (_, content) in asked.items()},
            first.group_id,
            self._until,
        )

    def _answer(
        self, attempt: Attempt, members: Mapping[str, Message], total: NDArray | None, lost: str
    ) -> None:
        """Reply with the members' reports, as a group with or without its sum. A member that has masked has
        paid. One that has not may have: either its own refusal says, or an error that nobody knows."""
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
        """Reply for a client that was never asked to mask and has paid for nothing."""
        words = Refusal("declined", f"no part of the secure sum, unpaid: {one_line(reason)}")
        self._reply(message, refusal or refusal_to_content(words))

    def _gone(self, message: Message, reason: str) -> None:
        error = Error(ErrorCode.NODE_UNAVAILABLE, one_line(reason))
        self._replies[message.metadata.message_id] = Message(error, reply_to=message)
        del self._asked[message.metadata.message_id]

    def _reply(self, message: Message, content: RecordDict) -> None:
        self._replies[message.metadata.message_id] = Message(content, reply_to=message)
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
    """The head of a new attempt. plan: a member's, as they differ in batches alone; weights: sent to all.

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
