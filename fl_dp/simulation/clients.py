"""The clients of a simulation, except for their training: messages in, work for the actors, answers out.

Like any client they follow `federation.client.round`. They share one ledger file, as clients on one machine
do, and a round is paid for in one transaction before any of it is trained.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import cache, partial
from operator import attrgetter
from typing import Any

import torch
from flwr.app import RecordDict

from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.config.client import ClientConfig
from fl_dp.errors import DataError, LedgerError
from fl_dp.federation.client.evaluation import Evaluation
from fl_dp.federation.client.kept_states import KeptStates
from fl_dp.federation.client.payment import AcceptedRound, Client, Outcome, Paid, pay, refuse, settle
from fl_dp.federation.client.registration import numbered
from fl_dp.federation.client.round import ClientRounds, update_of
from fl_dp.federation.client.stating import make_statement
from fl_dp.federation.wire.evaluation import evaluation_from_content, histogram_to_content
from fl_dp.federation.wire.messages import (
    profile_to_content,
    refusal_to_content,
    update_to_content,
)
from fl_dp.federation.wire.partial_sums import asked_weight
from fl_dp.records import LocalUpdate, Refusal, RoundPlan
from fl_dp.simulation.actor.shared_data import SharedParts
from fl_dp.simulation.work import ClientWork, Done
from fl_dp.statements import Statement
from fl_dp.tasks.held_out import HeldOut
from fl_dp.training.kept import digest_of_state

_OTHER_FIELDS = attrgetter(*(field.name for field in fields(LocalUpdate) if field.name != "arrays"))

Question = tuple[str, RecordDict]  # a message's id and its content


class SimulatedClients:
    """Clients 0, 1, ..., each with its own part of the data.

    settings: of client 0; the others differ only in name and part. A round that this run has already paid for
    is not paid for again if it starts from the same weights and its key is kept: it gives the same update as
    before (see `result_of`). Otherwise it is declined, because its update may have been released.
    states: what clients keep between rounds; None: nothing. held_out: returns a client's test records.
    """

    def __init__(
        self,
        settings: ClientConfig,
        parts: SharedParts,
        ledger: Ledger,
        states: KeptStates | None = None,
        held_out: Callable[[ClientConfig, bytes], HeldOut] | None = None,
    ) -> None:
        self._settings, self._parts, self._rounds = settings, parts, ClientRounds(ledger, held_out)
        self._states = states
        self._known: dict[int, Client] = {}
        self._accepted: dict[str, AcceptedRound] = {}  # by message id, as all below
        self._paid: dict[str, Paid[AcceptedRound]] = {}

    def register(self, clients: Sequence[int]) -> list[RecordDict]:
        """Each client's answer to a registration; new clients are entered in the ledger together."""
        try:
            self._enter(clients)
            profiles = self._rounds.profiles([self._known[client] for client in clients])
        except (DataError, LedgerError) as error:
            return [refusal_to_content(one) for one in refuse(map(str, clients), error).values()]
        return [profile_to_content(profile) for profile in profiles]

    def read(self, asked: Mapping[int, Question]) -> tuple[list[ClientWork], dict[str, RecordDict]]:
        """The work that the messages ask for, if the clients' policies allow it; and the refusals of the
        other clients, by message id.
        """
        contents = dict(asked.values())
        try:
            self._enter(asked)
        except (DataError, LedgerError) as error:
            return [], _contents(refuse(contents, error))
        accepted, refusals = self._rounds.accept(
            (message, self._known[client], content) for client, (message, content) in asked.items()
        )
        self._accepted |= {one.key: one for one in accepted}
        return [_work(one, contents[one.key]) for one in accepted], _contents(refusals)

    def pay(
        self, works: Sequence[ClientWork], weights: str
    ) -> tuple[list[ClientWork], dict[str, RecordDict]]:
        """Pay for the work, on the disk. Returns the work that was paid for, with its number of steps; and
        the refusals of the other clients, by message id. weights: their digest.
        """
        accepted = [self._accepted.pop(work.message) for work in works]
        states = {work.message: self._state_before(work) for work in works}
        digests = {message: digest_of_state(state) for message, state in states.items()}
        result = cache(partial(result_of, weights))  # most clients share plan and state
        try:
            paid, refusals = pay(
                self._rounds.ledger, accepted, lambda one: result(one.plan, digests[one.key])
            )
        except LedgerError as error:
            return [], _contents(refuse((work.message for work in works), error))
        by_message = {one.accepted.key: one for one in paid}
        self._paid |= by_message
        there = [(work, by_message[work.message]) for work in works if work.message in by_message]
        return [
            work.paid(one.steps, one.key(weights, digests[work.message]), states[work.message])
            for work, one in there
        ], _contents(refusals)

    def forget(self, works: Iterable[ClientWork]) -> None:
        """Drop accepted work that will not be paid for."""
        for work in works:
            del self._accepted[work.message]

    def answer(self, works: Iterable[ClientWork], done: Mapping[str, Done]) -> dict[str, RecordDict]:
        """The answers when all work of a round is done, by message id.

        If the ledger cannot be written, all are refusals: no update may leave, in a sum or alone.
        """
        works = list(works)
        results = [(self._paid.pop(work.message), _trained(done[work.message])) for work in works]
        try:
            answers = settle(self._rounds.ledger, results, update_of)
        except LedgerError as error:
            return _contents(refuse((paid.accepted.key for paid, _ in results), error))
        self._keep(works, done)
        return _contents(answers)

    def evaluate(self, client: int, content: RecordDict) -> RecordDict:
        """The client's answer to an evaluation on its own test records.

        As with rounds, a question that was paid for is answered in the same way as long as its key is kept.
        """
        try:
            self._enter([client])
            plan = evaluation_from_content(content)
            asked = Evaluation(self._known[client], plan, content, self._parts[client])
            answer = asked.play(self._rounds, repeats=True)
            if isinstance(answer, Refusal):
                return refusal_to_content(answer)
            return histogram_to_content(answer)
        except Exception as error:
            return refusal_to_content(refuse([str(client)], error)[str(client)])

    def erase_keys(self, run: str, up_to_round: int) -> None:
        """Erase the payment keys of these rounds, whose results are kept; then none of them can be repeated.

        LedgerError if the ledger cannot be written; then nothing of the rounds may leave.
        """
        self._rounds.ledger.erase_keys(run, up_to_round)
        if self._states:
            self._states.settle(up_to_round)

    def statement(self, run: str, weights: str) -> Statement:
        """The ledger's statement about all registered clients, see `make_statement`."""
        clients = [client for _, client in sorted(self._known.items())]
        return make_statement(self._rounds.ledger, clients, run, weights)

    def _state_before(self, work: ClientWork) -> bytes:
        """The state from which the client continues; empty if it starts anew."""
        return self._states.before(str(work.part), work.plan.server_round) if self._states else b""

    def _keep(self, works: Sequence[ClientWork], done: Mapping[str, Done]) -> None:
        """Write the states after the round to the disk; a client that failed continues from its last one."""
        states = {str(work.part): done[work.message].state for work in works if done[work.message].state}
        if self._states and states:
            self._states.save(works[0].plan.server_round, states)

    def _enter(self, clients: Iterable[int]) -> None:
        """Enter new clients in the ledger, in one transaction."""
        new = [client for client in clients if client not in self._known]
        if new:
            parts = self._settings.num_partitions
            settings = [numbered(self._settings, client, parts) for client in new]
            data = [self._parts[client] for client in new]
            self._known |= zip(
                new, self._rounds.register(list(zip(settings, data, strict=True))), strict=True
            )


def _contents(answers: Mapping[str, LocalUpdate | Refusal]) -> dict[str, RecordDict]:
    """The answers as message contents. Equal ones share records, which take a while to make."""
    made: dict[Any, RecordDict] = {}
    contents = {}
    for key, one in answers.items():
        if isinstance(one, LocalUpdate) and one.arrays:
            contents[key] = update_to_content(one)
            continue
        alike = one if isinstance(one, Refusal) else _OTHER_FIELDS(one)
        if alike not in made:
            made[alike] = refusal_to_content(one) if isinstance(one, Refusal) else update_to_content(one)
        contents[key] = made[alike].copy()
    return contents


def _trained(done: Done) -> Outcome:
    return Outcome(done.arrays or {}, done.problem, done.log)


def _work(accepted: AcceptedRound, content: RecordDict) -> ClientWork:
    settings, plan = accepted.client.settings, accepted.plan
    return ClientWork(
        message=accepted.key,
        client=settings.client,
        part=settings.partition_id,
        plan=plan,
        steps=plan.steps,
        sample_rate=accepted.sample_rate,
        weight=asked_weight(content),
    )


def result_of(weights: str, plan: RoundPlan, state: str = "") -> str:
    """A digest of all that decides a client's update, besides its data and the bytes of its payment.

    Draws, masks and noise come from those bytes, which the ledger keeps until the round's result is in the
    run's state. Until then an interrupted round is repeated with them, whichever process trains it: the same
    weights give the same result, which is released once.

    weights: their digest. The plan names the loss and the numerics of this fl_dp; another PyTorch may round,
    or draw, differently. state: digest of the state that the client continues from; empty if it starts anew.
    """
    words = f"{weights} {plan} torch {torch.__version__}" + (f" from {state}" if state else "")
    return hashlib.sha256(words.encode()).hexdigest()
