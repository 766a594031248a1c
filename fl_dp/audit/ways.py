"""The ways in which a client's round is trained in an audit: deployed or simulated, alone or in sums.

All are the shipped code from the message to the answer; only the transport of messages is left out.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import torch

from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.config.client import ClientConfig
from fl_dp.config.task import TaskSettings
from fl_dp.data.persons import Examples, PersonData
from fl_dp.engine.noise.grid import noise_grid
from fl_dp.errors import FederationError
from fl_dp.federation.client.kept_states import FOLDER, KeptStates
from fl_dp.federation.client.own_training import OwnTraining
from fl_dp.federation.client.round import ClientRounds, play
from fl_dp.federation.wire.arrays import NDArray, digest_of, encode
from fl_dp.federation.wire.messages import plan_to_content, reply_from_content
from fl_dp.federation.wire.partial_sums import ask_for_sum
from fl_dp.records import LocalUpdate, Refusal, RoundPlan
from fl_dp.simulation.actor.shared_data import SharedData, SharedParts
from fl_dp.simulation.actor.training_actor import TrainingActor
from fl_dp.simulation.clients import SimulatedClients
from fl_dp.simulation.work import ActorSettings, Round
from fl_dp.tasks.task import Task


class Way(Protocol):
    """One client with its data, ledger and task."""

    def train(self, plan: RoundPlan, weights: Mapping[str, NDArray]) -> LocalUpdate:
        """What leaves the client after a round that starts at `weights`; FederationError if it refuses."""
        ...


View = Literal["sum", "alone"]
MakeWay = Callable[[ClientConfig, Examples, Task, Ledger], Way]


class _Training(OwnTraining):
    """Gives a share of a sum if the plan asks for one: an audit of sums adds them up itself (`_InSums`)."""

    gives_to_sums = True


class Deployed:
    """Trains as a deployed client does, with randomness from the system's entropy."""

    def __init__(self, settings: ClientConfig, data: Examples, task: Task, ledger: Ledger) -> None:
        self._rounds = ClientRounds(ledger)
        (self._client,) = self._rounds.register([(settings, data)])
        self._training: OwnTraining = _Training(settings, data, task)

    def train(self, plan: RoundPlan, weights: Mapping[str, NDArray]) -> LocalUpdate:
        content = plan_to_content(plan, encode(weights))
        return _update(play(self._rounds, self._client, content, self._training))


class Simulated:
    """Trains as a simulated client does: in an actor, its update in a sum."""

    def __init__(self, settings: ClientConfig, data: Examples, task: Task, ledger: Ledger) -> None:
        records = data.records if isinstance(data, PersonData) else data
        shared = SharedData.of(data, [np.arange(len(records))])
        states = KeptStates(Path(settings.ledger).parent / FOLDER)
        self._clients = SimulatedClients(settings, SharedParts(shared), ledger, states)
        self._settings = ActorSettings(
            task=TaskSettings(**settings.of_task()),
            device="cpu",
            threads=torch.get_num_threads(),
            physical_batch_size=settings.physical_batch_size,
            memory_mib=settings.memory_mib,
        )
        self._actor = TrainingActor(shared, self._settings, task)

    def train(self, plan: RoundPlan, weights: Mapping[str, NDArray]) -> LocalUpdate:
        message = str(plan.server_round)
        content = ask_for_sum(plan_to_content(plan, encode(weights)), 1.0)
        works, refusals = self._clients.read({0: (message, content)})
        if not refusals:
            works, refusals = self._clients.pay(works, digest_of(weights))
        if refusals:
            return _answered(refusals)
        measured = self._actor.measure(plan)
        shared_round = Round(str(plan.server_round), weights, measured.kernels)
        chunk = self._actor.train(plan.server_round, works, measured.at_once, shared_round)
        contents = self._clients.answer(works, {one.message: one for one in chunk.done})
        arrays = {name: _as_sent(array) for name, array in chunk.sum.items()}
        return replace(_answered(contents), arrays=arrays)


def _as_sent(array: NDArray) -> NDArray:
    """An actor adds up in float64; the integers of a secure sum are left unchanged."""
    return array if array.dtype.kind == "i" else array.astype(np.float32)


def _answered(contents: Mapping[str, Any]) -> LocalUpdate:
    """The answer of the only client; FederationError if it refuses."""
    (content,) = contents.values()
    return _update(reply_from_content(content, {})[0])


def _update(answer: LocalUpdate | Refusal) -> LocalUpdate:
    if isinstance(answer, Refusal):
        raise FederationError(f"The audited client refuses: {answer.reason}")
    return answer


def in_sums(make: MakeWay, view: View, others: Callable[[int], Examples]) -> MakeWay:
    """A way to train into secure sums. make: how each member trains; others: data of members 1, 2, ..."""
    return partial(_InSums, make, view, others)


class _InSums:
    """Secure sums under both views: the opened sum, and one member's own share if nothing hides it.

    The canaries' client and other members, one for each share of the noise, train by the shipped code, each
    with its share. The observer sees their sum, or the canaries' client's share alone, and descends along it
    as a server does; the canaries are looked for in the result. No masks are used: they hide single shares,
    and the second view assumes that they do not.
    """

    def __init__(
        self,
        make: MakeWay,
        view: View,
        others: Callable[[int], Examples],
        settings: ClientConfig,
        data: Examples,
        task: Task,
        ledger: Ledger,
    ) -> None:
        self._own, self._view = make(settings, data, task, ledger), view
        self._members: list[Way] = []

        def member(number: int) -> Way:
            name = f"member {number}"
            own = replace(settings, client=name, data_name=name)
            return make(own, others(number), task, ledger)

        self._member = member

    def train(self, plan: RoundPlan, weights: Mapping[str, NDArray]) -> LocalUpdate:
        update = self._own.train(plan, weights)
        total = {name: np.asarray(array, np.int64) for name, array in update.arrays.items()}
        for member in self._others(plan):
            for name, share in member.train(plan, weights).arrays.items():
                total[name] = total[name] + share
        numbers = sum(one.size for one in total.values())
        spacing = noise_grid(plan.max_grad_norm, plan.own_multiplier, numbers).spacing
        step = plan.learning_rate / plan.expected_batch_size * spacing
        arrays = {name: weights[name] - step * whole for name, whole in total.items()}
        return replace(
            update, arrays={name: array.astype(weights[name].dtype) for name, array in arrays.items()}
        )

    def _others(self, plan: RoundPlan) -> list[Way]:
        """The members whose shares complete the noise together with that of the canaries' client."""
        if self._view == "sum" and not self._members:
            self._members = [self._member(number) for number in range(1, plan.shares)]
        return self._members
