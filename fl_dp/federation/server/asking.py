"""What each chosen client is asked for: at most one round of its own mechanism."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from flwr.app import ArrayRecord, Message, MessageType, RecordDict

from fl_dp.config.run import RunConfig
from fl_dp.federation.client.registration import task_identity
from fl_dp.federation.server.client_record import ClientRecord
from fl_dp.federation.server.planning import round_plan
from fl_dp.federation.server.weights import capped, weight_of
from fl_dp.federation.wire.messages import plan_to_content
from fl_dp.federation.wire.partial_sums import ask_for_sum
from fl_dp.records import Entry, RoundPlan


@dataclass(frozen=True, slots=True)
class Asked:
    """A client that was asked for a round: by which message, and for what.

    weight: of its update; in_sum: whether that may come added up to others'. plan: what the message asks for.
    """

    client: ClientRecord
    mechanism: Entry
    weight: float
    message: Message
    in_sum: bool
    plan: RoundPlan


class Asking:
    """run: its name in the clients' ledgers. origin: the name that it began under, where it was resumed."""

    def __init__(self, config: RunConfig, run: str) -> None:
        self._config, self._run, self._task = config, run, task_identity(config)
        self._summed: Sequence[str] = ()  # arrays of a secure sum
        self.origin = run

    def ask(
        self, clients: Sequence[ClientRecord], server_round: int, weights: ArrayRecord, *, in_sum: bool
    ) -> list[Asked]:
        """in_sum: the updates may come added up."""
        content = self._contents(weights, in_sum)
        counts = [self._weight_of(client) for client in clients]
        if in_sum:  # they are added up with these; else the cap is for the updates that stand
            counts = capped(counts, self._config.max_weight)
        return [
            self._ask(client, weight, server_round, content, in_sum)
            for client, weight in zip(clients, counts, strict=True)
        ]

    def _weight_of(self, client: ClientRecord) -> float:
        assert client.mechanism is not None  # only clients that can take a step are chosen
        return weight_of(self._config.weights, client.profile, client.mechanism)

    def _contents(self, weights: ArrayRecord, in_sum: bool) -> Callable[[RoundPlan, float], RecordDict]:
        """What gives a message's content; clients that are asked for the same share one."""

        @cache
        def content(plan: RoundPlan, weight: float) -> RecordDict:
            alone = plan_to_content(plan, weights)
            return ask_for_sum(alone, weight, self._summed) if in_sum else alone

        return content

    def _ask(
        self,
        client: ClientRecord,
        weight: float,
        server_round: int,
        content: Callable[[RoundPlan, float], RecordDict],
        in_sum: bool,
    ) -> Asked:
        mechanism = client.to_ask
        plan = round_plan(
            client.profile, mechanism, self._config, self._run, server_round, self._task, self.origin
        )
        message = Message(
            content(plan, weight),
            client.node_id,
            MessageType.TRAIN,
            ttl=self._config.round_timeout,  # a client that sees it later does not train for nothing
            group_id=str(server_round),
        )
        return Asked(client, mechanism, weight, message, in_sum, plan)
