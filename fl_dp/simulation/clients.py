"""The clients' side of a simulation, beside their training: policy, budget, ledger, and what they answer.

All clients share one ledger file, as clients on one machine do, and a round is paid for in one transaction
before any of it is trained.
"""

import dataclasses
import logging
from collections.abc import Iterable, Mapping, Sequence

from flwr.app import Message, RecordDict

from fl_dp.accounting.budget import Budget
from fl_dp.accounting.ledger import Ledger, Request, Reservation
from fl_dp.config import ClientConfig
from fl_dp.errors import DeclinedError, FlDpError
from fl_dp.federation.enrolment import dataset_name, enrolment
from fl_dp.federation.messages import (
    Refusal,
    plan_from_content,
    profile_to_content,
    refusal_of,
    refusal_to_content,
    update_to_content,
)
from fl_dp.federation.partial_sums import asked_weight
from fl_dp.federation.policy import check_plan
from fl_dp.federation.profile import budget_of, profile_of
from fl_dp.simulation.keys import result_of
from fl_dp.simulation.shared_data import Parts
from fl_dp.simulation.tasks import Done, Task
from fl_dp.training import LocalUpdate

logger = logging.getLogger("fl_dp")


class SimulatedClients:
    """Clients 0, 1, ..., each with a part of its own.

    settings: of client 0; the others differ from it in name and part alone. A round of the same run that
    was paid for before is not paid for again if it starts from the same weights: its update is the same as
    then (see `keys`). From others it is declined: with the noise of the first it would be no secret.
    """

    def __init__(self, settings: ClientConfig, parts: Parts, ledger: Ledger) -> None:
        self._settings, self._parts, self._ledger = settings, parts, ledger
        self._configs: dict[int, ClientConfig] = {}
        self._sizes: dict[int, int] = {}
        self._reserved: dict[str, Reservation] = {}

    def hello(self, clients: Sequence[int]) -> list[RecordDict]:
        """What each answers to hello; those that are new are entered in the ledger, in one transaction."""
        self._enrol(clients)
        retired = self._ledger.retirements()
        return [self._profile(client, retired) for client in clients]

    def read(self, asked: Mapping[int, Message]) -> tuple[list[Task], dict[str, RecordDict]]:
        """What the messages ask of the clients, where their policies allow it; and by message, what the
        others answer.
        """
        self._enrol(asked)
        tasks: list[Task] = []
        refusals: dict[str, RecordDict] = {}
        for client, message in asked.items():
            try:
                tasks.append(self._task(client, message))
            except FlDpError as error:
                refusals[message.metadata.message_id] = refusal_to_content(refusal_of(error))
        return tasks, refusals

    def pay(self, tasks: Sequence[Task], weights: str) -> tuple[list[Task], dict[str, RecordDict]]:
        """Reserve the tasks' steps, in one transaction, on disk: the tasks with the steps that they may
        take; and by message, what those answer that may take none. weights: their digest.
        """
        paid: list[Task] = []
        refusals: dict[str, RecordDict] = {}
        results = self._ledger.reserve_all([self._request(task, weights) for task in tasks])
        for task, result in zip(tasks, results, strict=True):
            if isinstance(result, DeclinedError):
                refusals[task.message] = refusal_to_content(refusal_of(result))
            else:
                self._reserved[task.message] = result
                paid.append(dataclasses.replace(task, steps=result.entry.steps))
        return paid, refusals

    def answer(self, tasks: Iterable[Task], done: Mapping[str, Done]) -> dict[str, RecordDict]:
        """What is answered for the tasks of a round, by message, when all of them are over.

        Committed first, in one transaction. The arrays are those of `done`, none if they are in a sum.
        """
        over = [(task, done[task.message], self._reserved.pop(task.message)) for task in tasks]
        self._ledger.commit_all([paid for _, result, paid in over if not result.problem])
        return {task.message: self._reply(task, result) for task, result, _ in over}

    def _reply(self, task: Task, done: Done) -> RecordDict:
        if done.problem:
            logger.warning("client %s failed: %s", task.client, done.problem)
            return refusal_to_content(Refusal("failed", done.problem))
        spent = self._ledger.spent(dataset_name(self._config(task.part)))
        budget = self._budget(task.part)
        return update_to_content(
            LocalUpdate(done.arrays or {}, spent, task.steps, budget.epsilon_of(spent), budget.delta)
        )

    def _enrol(self, clients: Iterable[int]) -> None:
        new = [client for client in clients if client not in self._sizes]
        wanted = [enrolment(self._parts[client], self._config(client)) for client in new]
        self._sizes.update(zip(new, self._ledger.register_all(wanted), strict=True))

    def _profile(self, client: int, retired: int) -> RecordDict:
        config = self._config(client)
        spent = self._ledger.spent(dataset_name(config))
        return profile_to_content(profile_of(config, self._sizes[client], spent, retired))

    def _task(self, client: int, message: Message) -> Task:
        """What the message asks for, if the client's policy allows it."""
        plan, _ = plan_from_content(message.content)
        size = self._sizes[client]
        check_plan(plan, self._config(client), size)
        return Task(
            message=message.metadata.message_id,
            client=str(client),
            part=client,
            plan=plan,
            steps=plan.steps,
            sample_rate=plan.expected_batch_size / size,
            weight=asked_weight(message.content),
        )

    def _request(self, task: Task, weights: str) -> Request:
        return Request(
            dataset_name(self._config(task.part)),
            task.plan.run,
            task.plan.server_round,
            (task.sample_rate, task.plan.noise_multiplier),
            task.plan.steps,
            self._budget(task.part) if task.plan.private else None,
            inputs=result_of(weights, task.plan),
        )

    def _budget(self, client: int) -> Budget:
        return budget_of(self._config(client), self._sizes[client])

    def _config(self, client: int) -> ClientConfig:
        if client not in self._configs:
            self._configs[client] = dataclasses.replace(
                self._settings, client=str(client), partition_id=client
            )
        return self._configs[client]
