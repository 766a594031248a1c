"""Flower's Grid over simulated clients: messages in, replies out, without copying weights for each client."""

import itertools
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ray
from flwr.app import Error, Message, MessageType, RecordDict

from fl_dp.errors import DeclinedError
from fl_dp.federation.client.payment import refuse
from fl_dp.federation.client.round import expected_weights
from fl_dp.federation.wire.arrays import ArraySpec, digest_of
from fl_dp.federation.wire.messages import ARRAYS, REFUSAL, refusal_to_content, set_metadata
from fl_dp.federation.wire.partial_sums import make_group
from fl_dp.federation.wire.send_receive import BaseGrid
from fl_dp.records import RoundPlan
from fl_dp.simulation.actor_pool import ActorPool
from fl_dp.simulation.clients import SimulatedClients
from fl_dp.simulation.work import ClientWork, Done, Round, RoundWork
from fl_dp.statements import Statement

PULL_SECONDS = 1.0  # the longest pull while there is work; a caller's own timeout may be late by as much
SHOW_SECONDS = 0.2  # between two progress reports of a round
LAST_START = 0.85  # of a message's time to live: no client is started later
IN_TIME = 0.95  # of it: then the results so far are sent, while they still count
TOO_LATE = "was not trained within round-timeout; a longer one may be set"
_NO_HANDLER = 1
_ANSWERED = (MessageType.QUERY, MessageType.TRAIN, MessageType.EVALUATE)


@dataclass(frozen=True)
class RoundModel:
    """What a round of a model needs: the specs of its arrays, and the engine's kernels."""

    specs: Mapping[str, ArraySpec]
    kernels: Mapping[str, str]


@dataclass
class _Batch:
    """Work items that start from the same `weights`. shared_round: a reference to their Round.

    asked: when they were requested; ttl: seconds from then on in which an answer counts.
    """

    shared_round: Any
    items: Sequence[ClientWork]
    messages: Mapping[str, Message]
    asked: float
    ttl: float
    begun: bool = False

    def has_passed(self, share: float) -> bool:
        """Whether that share of its ttl has passed."""
        return time.monotonic() > self.asked + share * self.ttl


class SimulationGrid(BaseGrid):
    """A grid whose clients train in actors, on this machine or a cluster.

    A registration is answered at once. A round's messages go to the actors together; `pull_messages` drives
    the work, and returns when there are replies. Updates are added up if a message allows it (see
    `federation.wire.partial_sums`) and sent one by one otherwise. Flower's strategies run on it too; all
    updates then pass through this process.
    """

    adds_up = True

    def __init__(
        self,
        clients: SimulatedClients,
        number: int,
        pool: ActorPool,
        prepare: Callable[[RoundPlan], RoundModel],
        on_work: Callable[[RoundWork], None],
    ) -> None:
        """number: of clients. prepare: returns what a plan's model needs. on_work: called with the progress
        of a round.
        """
        self._clients, self._number, self._pool = clients, number, pool
        self._prepare, self._on_work = prepare, on_work
        self._ids = itertools.count(1)
        self._replies: dict[str, Message] = {}
        self._batches: deque[_Batch] = deque()

    def erase_keys(self, run: str, up_to_round: int) -> None:
        """To be called when the rounds' results are in the run's state, and before any result leaves."""
        self._clients.erase_keys(run, up_to_round)

    def statement(self, run: str, weights: str) -> Statement:
        """The statement of the clients' ledger, when the run is over."""
        return self._clients.statement(run, weights)

    def get_node_ids(self) -> Iterable[int]:
        """Client k is node k + 1: Flower has no node 0."""
        return range(1, self._number + 1)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        sent = list(messages)
        for message in sent:
            set_metadata(message, message_id=str(next(self._ids)))
        self._register([one for one in sent if one.metadata.message_type == MessageType.QUERY])
        self._start([one for one in sent if one.metadata.message_type == MessageType.TRAIN])
        self._evaluate([one for one in sent if one.metadata.message_type == MessageType.EVALUATE])
        for message in sent:
            if message.metadata.message_type not in _ANSWERED:
                self._fail(message, f"a client does not answer {message.metadata.message_type} messages")
        return [message.metadata.message_id for message in sent]

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """The replies so far. If one is missing, first works on the round, for at most PULL_SECONDS."""
        wanted = list(message_ids)
        until = time.monotonic() + PULL_SECONDS
        while self._batches and time.monotonic() < until and any(one not in self._replies for one in wanted):
            self._work(min(SHOW_SECONDS, max(0.0, until - time.monotonic())))
        return [self._replies.pop(one) for one in wanted if one in self._replies]

    def _register(self, messages: Sequence[Message]) -> None:
        asked = self._by_client(messages)
        for message, content in zip(asked.values(), self._clients.register(list(asked)), strict=True):
            self._reply(message, content)

    def _evaluate(self, messages: Sequence[Message]) -> None:
        """Evaluate in this process: passes without gradients are cheap."""
        for client, message in self._by_client(messages).items():
            self._reply(message, self._clients.evaluate(client, message.content))

    def _start(self, messages: Sequence[Message]) -> None:
        """Read the requests and queue them, items of one model and one set of weights together."""
        now = time.monotonic()
        asked = self._by_client(messages)
        items, refusals = self._clients.read(
            {client: (message.metadata.message_id, message.content) for client, message in asked.items()}
        )
        by_id = {message.metadata.message_id: message for message in messages}
        self._refuse(by_id, refusals)
        together: dict[tuple[str, str, int], list[ClientWork]] = {}
        for item in items:
            weights = by_id[item.message].content.get(ARRAYS)
            together.setdefault((item.plan.model, item.plan.loss, id(weights)), []).append(item)
        for some in together.values():
            self._queue(some, by_id, now)

    def _queue(self, items: Sequence[ClientWork], by_id: Mapping[str, Message], asked: float) -> None:
        """Pay for the items and queue them for the actors; refuse them if the weights do not fit."""
        first, plan = by_id[items[0].message], items[0].plan
        model = self._prepare(plan)  # an error here ends the run: every client and round would have it
        try:
            weights = expected_weights(first.content, plan.model, model.specs)
        except DeclinedError as error:
            self._clients.forget(items)
            refused = refuse((item.message for item in items), error)
            self._refuse(by_id, {key: refusal_to_content(one) for key, one in refused.items()})
            return
        paid, refusals = self._clients.pay(items, digest_of(weights))
        self._refuse(by_id, refusals)
        if paid:
            key = f"{plan.run}-{items[0].message}"
            shared_round = ray.put(Round(key, weights, model.kernels))  # each machine fetches it once
            self._batches.append(_Batch(shared_round, paid, by_id, asked, first.metadata.ttl))

    def _work(self, seconds: float) -> None:
        """Work on the first batch for at most that long, and answer it once it is done."""
        batch = self._batches[0]
        if not batch.begun:
            self._pool.begin(batch.shared_round, batch.items)
            batch.begun = True
        over = self._pool.advance(seconds)
        if not over and batch.has_passed(LAST_START):
            self._pool.finish()
        if not over and batch.has_passed(IN_TIME):
            self._pool.stop()
            over = True
        self._on_work(self._status(batch, over))
        if over:
            self._batches.popleft()
            self._answer(batch)

    def _answer(self, batch: _Batch) -> None:
        late = {item.message: Done(item.message, 0.0, TOO_LATE) for item in batch.items}
        contents = self._clients.answer(batch.items, {**late, **self._pool.round.done})
        messages, arrays = self._pool.round.sum()
        if messages and not any(REFUSAL in contents[message] for message in messages):
            make_group(contents, messages, arrays, shares=batch.items[0].plan.shares)
        for message_id, content in contents.items():
            self._reply(batch.messages[message_id], content)

    def _status(self, batch: _Batch, ended: bool) -> RoundWork:
        done = self._pool.round.done
        return RoundWork(
            server_round=batch.items[0].plan.server_round,
            clients=len(batch.items),
            over=len(done),
            failed=sum(bool(one.problem) for one in done.values()),
            repeated=self._pool.round.repeated,
            records=sum(item.records for item in batch.items if item.message in done),
            seconds=time.monotonic() - batch.asked,
            busy_seconds=sum(one.seconds for one in done.values()),
            actors=self._pool.actors,
            ended=ended,
            private=batch.items[0].plan.private,
        )

    def _by_client(self, messages: Iterable[Message]) -> dict[int, Message]:
        """The messages by client; those that no client can answer get an error."""
        found: dict[int, Message] = {}
        for message in messages:
            client = message.metadata.dst_node_id - 1
            if not 0 <= client < self._number:
                self._fail(message, "no such node")
            elif client in found:
                self._fail(message, "a client takes one such message at a time")
            else:
                found[client] = message
        return found

    def _refuse(self, by_id: Mapping[str, Message], refusals: Mapping[str, RecordDict]) -> None:
        for message_id, content in refusals.items():
            self._reply(by_id[message_id], content)

    def _reply(self, message: Message, content: RecordDict) -> None:
        self._replies[message.metadata.message_id] = Message(content, reply_to=message)

    def _fail(self, message: Message, reason: str) -> None:
        self._replies[message.metadata.message_id] = Message(Error(_NO_HANDLER, reason), reply_to=message)
