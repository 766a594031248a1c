"""The clients' side of a simulation, beside their training: policy, budget, ledger, and what they answer.

All clients share one ledger file, as clients on one machine do, and a round is paid for in one transaction
before any of it is trained.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

from flwr.app import Message, RecordDict

from fl_dp.accounting.budget import Budget
from fl_dp.accounting.ledger.ledger import Ledger, Request, Reservation
from fl_dp.config.client import ClientConfig
from fl_dp.errors import DeclinedError, FlDpError
from fl_dp.federation.client.policy import check_plan
from fl_dp.federation.client.profile import budget_of, profile_of
from fl_dp.federation.client.registration import dataset_name, enrolment
from fl_dp.federation.wire.messages import (
    Refusal,
    plan_from_content,
    profile_to_content,
    refusal_of,
    refusal_to_content,
    update_to_content,
)
from fl_dp.federation.wire.partial_sums import asked_weight
from fl_dp.records import Entry, RoundPlan
from fl_dp.simulation.actor.keys import result_of
from fl_dp.simulation.actor.shared_data import Parts
from fl_dp.simulation.work import Array, ClientWork, Done
from fl_dp.training.local_round import LocalUpdate

logger = logging.getLogger("fl_dp")


@dataclass(frozen=True, slots=True)
class _Client:
    """A client that is entered in the ledger: its data's name there, and their declared number."""

    config: ClientConfig
    dataset: str
    size: int
    budget: Budget


class SimulatedClients:
    """Clients 0, 1, ..., each with a part of its own.

    settings: of client 0; the others differ from it in name and part alone. A round of the same run that
    was paid for before is not paid for again if it starts from the same weights: its update is the same as
    then (see `keys`). From others it is declined: with the noise of the first it would be no secret.
    """

    def __init__(self, settings: ClientConfig, parts: Parts, ledger: Ledger) -> None:
        self._settings, self._parts, self._ledger = settings, parts, ledger
        self._known: dict[int, _Client] = {}
        self._reserved: dict[str, Reservation] = {}

    def hello(self, clients: Sequence[int]) -> list[RecordDict]:
        """What each answers to hello; those that are new are entered in the ledger, in one transaction."""
        self._enrol(clients)
        retired = self._ledger.retirements()
        known = [self._known[client] for client in clients]
        spent = self._ledger.spent_all(client.dataset for client in known)
        return [
            profile_to_content(profile_of(client.config, client.size, entries, retired))
            for client, entries in zip(known, spent, strict=True)
        ]

    def read(self, asked: Mapping[int, Message]) -> tuple[list[ClientWork], dict[str, RecordDict]]:
        """What the messages ask of the clients, where their policies allow it; and by message, what the
        others answer.
        """
        self._enrol(asked)
        tasks: list[ClientWork] = []
        refusals: dict[str, RecordDict] = {}
        answers: dict[tuple[int, int], RoundPlan | RecordDict] = {}  # of one content to clients of one size
        for client, message in asked.items():
            size = self._known[client].size
            key = id(message.content), size
            if key not in answers:
                answers[key] = self._accepted(message.content, size)
            answer = answers[key]
            if isinstance(answer, RoundPlan):
                tasks.append(_task(client, size, message, answer))
            else:
                refusals[message.metadata.message_id] = answer.copy()
        return tasks, refusals

    def pay(
        self, tasks: Sequence[ClientWork], weights: str
    ) -> tuple[list[ClientWork], dict[str, RecordDict]]:
        """Reserve the tasks' steps, in one transaction, on disk: the tasks with the steps that they may
        take; and by message, what those answer that may take none. weights: their digest.
        """
        paid: list[ClientWork] = []
        refusals: dict[str, RecordDict] = {}
        inputs = {plan: result_of(weights, plan) for plan in {task.plan for task in tasks}}
        results = self._ledger.reserve_all([self._request(task, inputs[task.plan]) for task in tasks])
        for task, result in zip(tasks, results, strict=True):
            if isinstance(result, DeclinedError):
                refusals[task.message] = refusal_to_content(refusal_of(result))
            else:
                self._reserved[task.message] = result
                paid.append(replace(task, steps=result.entry.steps))
        return paid, refusals

    def answer(self, tasks: Iterable[ClientWork], done: Mapping[str, Done]) -> dict[str, RecordDict]:
        """What is answered for the tasks of a round, by message, when all of them are over.

        Committed first, in one transaction. The arrays are those of `done`, none if they are in a sum.
        """
        over = [(task, done[task.message], self._reserved.pop(task.message)) for task in tasks]
        trained = [one for one in over if not one[1].problem]
        self._ledger.commit_all(paid for _, _, paid in trained)
        spent = self._ledger.spent_all(self._known[task.part].dataset for task, _, _ in trained)
        in_sum = cache(partial(_update, {}))  # clients that are alike share the records of one answer
        contents = {task.message: _failure(task, result) for task, result, _ in over if result.problem}
        for (task, result, _), entries in zip(trained, spent, strict=True):
            budget = self._known[task.part].budget
            contents[task.message] = (
                _update(result.arrays, entries, task.steps, budget)
                if result.arrays
                else in_sum(entries, task.steps, budget).copy()
            )
        return contents

    def _enrol(self, clients: Iterable[int]) -> None:
        new = {
            client: replace(self._settings, client=str(client), partition_id=client)
            for client in clients
            if client not in self._known
        }
        if not new:
            return
        wanted = [enrolment(self._parts[client], config) for client, config in new.items()]
        for (client, config), size in zip(new.items(), self._ledger.register_all(wanted), strict=True):
            self._known[client] = _Client(config, dataset_name(config), size, budget_of(config, size))

    def _accepted(self, content: RecordDict, size: int) -> RoundPlan | RecordDict:
        """The plan in a message, if the policy of a client of that size allows it; else what it answers."""
        try:
            plan, _ = plan_from_content(content)
            check_plan(plan, self._settings, size)
        except FlDpError as error:
            return refusal_to_content(refusal_of(error))
        return plan

    def _request(self, task: ClientWork, inputs: str) -> Request:
        client, plan = self._known[task.part], task.plan
        return Request(
            client.dataset,
            plan.run,
            plan.server_round,
            (task.sample_rate, plan.noise_multiplier),
            plan.steps,
            client.budget if plan.private else None,
            inputs=inputs,
        )


def _failure(task: ClientWork, done: Done) -> RecordDict:
    logger.warning("client %s failed: %s", task.client, done.problem)
    return refusal_to_content(Refusal("failed", done.problem))


def _update(arrays: Mapping[str, Array], spent: tuple[Entry, ...], steps: int, budget: Budget) -> RecordDict:
    return update_to_content(LocalUpdate(arrays, spent, steps, budget.epsilon_of(spent), budget.delta))


def _task(client: int, size: int, message: Message, plan: RoundPlan) -> ClientWork:
    return ClientWork(
        message=message.metadata.message_id,
        client=str(client),
        part=client,
        plan=plan,
        steps=plan.steps,
        sample_rate=plan.expected_batch_size / size,
        weight=asked_weight(message.content),
    )
