"""The two ways in which an audit trains a client's round: deployed and simulated.

Both run the shipped code from the message to the answer; only the transport of messages is left out.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.config.client import ClientConfig
from fl_dp.config.task import TaskSettings
from fl_dp.data.persons import Examples, PersonData
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
        """What leaves the client after a round from `weights`; FederationError if the client refuses."""
        ...


MakeWay = Callable[[ClientConfig, Examples, Task, Ledger], Way]


class Deployed:
    """Trains as a deployed client does, with randomness from the system's entropy."""

    def __init__(self, settings: ClientConfig, data: Examples, task: Task, ledger: Ledger) -> None:
        self._rounds = ClientRounds(ledger)
        (self._client,) = self._rounds.register([(settings, data)])
        self._training = OwnTraining(settings, data, task)

    def train(self, plan: RoundPlan, weights: Mapping[str, NDArray]) -> LocalUpdate:
        content = plan_to_content(plan, encode(weights))
        return _update(play(self._rounds, self._client, content, self._training))


class Simulated:
    """Trains as a simulated client does: in an actor, its update in a sum."""

    def __init__(self, settings: ClientConfig, data: Examples, task: Task, ledger: Ledger) -> None:
        records = data.records if isinstance(data, PersonData) else data
        shared = SharedData.of(data, [np.arange(len(records))]).with_inputs()
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
        arrays = {name: array.astype(np.float32) for name, array in chunk.sum.items()}
        return replace(_answered(contents), arrays=arrays)


def _answered(contents: Mapping[str, Any]) -> LocalUpdate:
    """The answer of the only client; FederationError if it refuses."""
    (content,) = contents.values()
    return _update(reply_from_content(content, {})[0])


def _update(answer: LocalUpdate | Refusal) -> LocalUpdate:
    if isinstance(answer, Refusal):
        raise FederationError(f"The audited client refuses: {answer.reason}")
    return answer
