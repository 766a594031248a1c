"""Requests to the chosen clients: a round of the client's own mechanism, and its weight in the mean."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cache

from flwr.app import ArrayRecord, Message, MessageType, RecordDict

from fl_dp.accounting.shares import honest_shares
from fl_dp.config.run import RunConfig
from fl_dp.config.run_settings import BY_NOISE, DECLARED
from fl_dp.federation.server.client_record import ClientRecord
from fl_dp.federation.server.planning import round_plan
from fl_dp.federation.server.registration import Registration
from fl_dp.federation.wire.messages import plan_to_content
from fl_dp.federation.wire.partial_sums import ask_for_sum
from fl_dp.records import ClientProfile, Entry, RoundPlan
from fl_dp.tasks.identity import identity
from fl_dp.tasks.load import task_of

MOST = 2.0  # the largest weight, in multiples of the others' mean
_ROUNDING = 1 + 1e-12


@dataclass(frozen=True, slots=True)
class Asked:
    """The server's request to one client for one round.

    mechanism: what the whole round will cost. plan: what `message` says. weight: of the client's update in
    the mean. in_sum: whether the update may arrive added up with others.
    """

    client: ClientRecord
    mechanism: Entry
    weight: float
    message: Message
    in_sum: bool
    plan: RoundPlan


class RoundRequests:
    """Makes the requests of a run.

    run: its name in the clients' ledgers. shared: names of the arrays that clients send back. origin: the
    run's first name, if it was resumed under another.
    """

    def __init__(
        self, config: RunConfig, run: str, registration: Registration, shared: Collection[str]
    ) -> None:
        self._config, self._run, self._task = config, run, identity(task_of(config))
        self._registration = registration
        self._summed = list(shared) if config.secure else []
        self.origin = run

    def ask(
        self, clients: Sequence[ClientRecord], server_round: int, weights: ArrayRecord, *, in_sum: bool
    ) -> list[Asked]:
        """in_sum: the updates may arrive in a sum; for a secure sum they always do."""

        @cache  # equal requests share one content
        def content(plan: RoundPlan, weight: float) -> RecordDict:
            alone = plan_to_content(plan, weights)
            return ask_for_sum(alone, weight, self._summed) if in_sum else alone

        if self._config.secure and clients:
            clients = self._sharing_mechanism(clients)
        counts = [self._weight_of(client) for client in clients]
        if in_sum:  # single updates are capped later, among the valid ones
            counts = capped(counts)
        asked = []
        for client, weight in zip(clients, counts, strict=True):
            mechanism = client.to_ask
            run = self._run, server_round, self._task, self.origin
            plan = round_plan(client.profile, mechanism, self._config, *run)
            message = Message(
                content(plan, weight),
                client.node_id,
                MessageType.TRAIN,
                ttl=self._config.round_timeout,  # a client that sees it later would train in vain
                group_id=str(server_round),
            )
            asked.append(Asked(client, mechanism, weight, message, in_sum, plan))
        return asked

    def _weight_of(self, client: ClientRecord) -> float:
        """The client's weight. In a secure sum it is 1, so that all records weigh the same."""
        assert client.mechanism is not None  # only clients that can take a step are chosen
        if self._config.secure:
            return 1.0
        return weight_of(self._config.weights, client.profile, client.mechanism)

    def _sharing_mechanism(self, clients: Sequence[ClientRecord]) -> list[ClientRecord]:
        """All members of a secure sum with the same noise multiplier, because the sum has one noise.

        When the first round is requested, the client that needs most noise decides. Later rounds keep its
        multiplier, because a client's ledger allows one mechanism. A client that joins later and would need
        more noise reaches its budget before the others.
        """
        shares = honest_shares(len(clients), self._config.secure_dropouts, self._config.secure_colluders)
        known = self._registration.clients.values()
        begun = [one for one in known if one.mechanism and (one.rounds or one.unconfirmed)]
        mechanisms = [one.mechanism for one in begun or known if one.mechanism]
        noise = max(one.noise_multiplier for one in mechanisms)
        members = []
        for client in clients:
            assert client.mechanism is not None
            mechanism = replace(client.mechanism, noise_multiplier=noise, shares=shares)
            members.append(self._registration.update(replace(client, mechanism=mechanism)))
        return members


def weight_of(weights: str, profile: ClientProfile, mechanism: Entry) -> float:
    """The weight, > 0, by the run config's `weights`. mechanism: of the client's round.

    By noise: the inverse of the noise variance of each number of the update, up to a factor that all clients
    share. A step adds a variance of (rate sigma C / batch)^2, and the steps of a round add up; learning rate
    and C are the same for all. Of all weighted means this has the least noise.
    """
    if weights == DECLARED:
        return float(profile.public_size)
    if weights == BY_NOISE:
        batch = mechanism.sample_rate * profile.public_size
        return batch**2 / (mechanism.noise_multiplier**2 * mechanism.steps)
    return 1.0


def capped(weights: Sequence[float]) -> list[float]:
    """Cap the weights, which are > 0, so that none is more than MOST times the mean of the others.

    They follow from sizes that clients declare and nobody can check: a client that lies must not dominate.

    No share of the total is then above MOST / (n - 1 + MOST), which is at most MOST equal shares. (With two
    clients it is 2/3, where two equal shares would be everything.) The k largest weights are replaced by one
    value, with the least k for which the cap holds for all; the others stay.

    | weights           | capped                                                     |
    |-------------------|------------------------------------------------------------|
    | 100, 90, 80       | as they are                                                |
    | 6.4e6, 100        | 200, 100                                                   |
    | 6.4e6, 100, 100   | 200, 100, 100                                              |
    | 6.4e6, 6.4e6, 100 | as they are: each of the colluding clients has share 1/2   |
    """
    count = len(weights)
    if count < 2:
        return list(weights)
    share = MOST / (count - 1 + MOST)
    falling = sorted(weights, reverse=True)
    for replaced in range(count):
        left = 1 - replaced * share  # share of those that keep their weights
        if left <= 0:
            break
        limit = share * math.fsum(falling[replaced:]) / left
        if falling[replaced] <= limit * _ROUNDING:
            return [min(weight, limit) for weight in weights] if replaced else list(weights)
    return [falling[-1]] * count
