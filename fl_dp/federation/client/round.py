"""The client's side of a round: it registers its data and accepts the round; then `payment.py` follows.

`ClientRounds` takes lists of clients that share one ledger, and `play` the training of one as an argument. A
real client is a list of one; a simulation is a list of many, trained by other processes; an audit is a list
of one with canaries.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from flwr.app import RecordDict

from fl_dp.accounting.budget import Budget
from fl_dp.accounting.ledger.accounts import Account
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.config.client import ClientConfig
from fl_dp.data.persons import Examples
from fl_dp.errors import BudgetExhaustedError, ConfigError, DeclinedError, FlDpError
from fl_dp.federation.client.approval import require_approval
from fl_dp.federation.client.budgets import budget_of, evaluation_budget_of, profile_of
from fl_dp.federation.client.payment import (
    CLIENTS_LOGGER,
    AcceptedRound,
    Client,
    HeldOutAccount,
    Paid,
    pay_and_answer,
    refusal_of,
    warn_of_refusals,
)
from fl_dp.federation.client.policy import check_plan
from fl_dp.federation.client.registration import (
    check_held,
    dataset_name,
    held_out_registration,
    registration_of,
    task_identity,
)
from fl_dp.federation.wire.arrays import ArraySpec, NDArray, decode
from fl_dp.federation.wire.messages import ARRAYS, array_record, beyond_use, plan_from_content
from fl_dp.records import MOST_WEIGHT, ClientProfile, Entry, LocalUpdate, Refusal, RoundPlan
from fl_dp.reporting.reports import NOT_PRIVATE
from fl_dp.tasks.held_out import HeldOut
from fl_dp.tasks.records import load_held_out

logger = logging.getLogger(CLIENTS_LOGGER)


class ClientRounds:
    """The rounds of clients that share one ledger.

    held_out: loads a client's test records, with the ledger's key of the split; by default from its files.
    """

    def __init__(
        self, ledger: Ledger, held_out: Callable[[ClientConfig, bytes], HeldOut] | None = None
    ) -> None:
        self.ledger = ledger
        self._held_out = held_out

    @classmethod
    def open(cls, settings: ClientConfig) -> Self:
        """Open the ledger that the settings name; LedgerError if it is not sound."""
        return cls(Ledger.open(Path(settings.ledger), one_run=settings.one_run_ledger))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.ledger.close()

    def register(self, clients: Sequence[tuple[ClientConfig, Examples]]) -> list[Client]:
        """Enter the clients' data in the ledger on their first use, in one transaction.

        DataError or LedgerError if they are more than declared, in the settings or in the ledger. LedgerError
        if data that have spent would start at zero: see `Ledger.register_all`.
        """
        held_out = {place: self._load_held_out(one) for place, (one, _) in enumerate(clients) if one.test}
        asked = [(settings, registration_of(data, settings), len(data)) for settings, data in clients]
        for place, one in held_out.items():
            settings = clients[place][0]
            asked.append((settings, held_out_registration(one, settings), one.units))
        accounts: list[tuple[str, int, str, Budget]] = []
        sizes = self.ledger.register_all([declared for _, declared, _ in asked])
        for (settings, declared, units), size in zip(asked, sizes, strict=True):
            check_held(units, declared.dataset, size, settings)
            budget = (evaluation_budget_of if len(accounts) >= len(clients) else budget_of)(settings, size)
            accounts.append((declared.dataset, size, declared.fingerprint, budget))
        of_tests = iter(accounts[len(clients) :])
        tests = {place: HeldOutAccount(*next(of_tests), one) for place, one in held_out.items()}
        return [
            Client(*account, settings, task_identity(settings), tests.get(place))
            for place, ((settings, _), account) in enumerate(zip(clients, accounts, strict=False))
        ]

    def _load_held_out(self, settings: ClientConfig) -> HeldOut:
        key = self.ledger.split_key() if settings.test_share else b""
        return (self._held_out or load_held_out)(settings, key)

    def known(self, settings: ClientConfig) -> Client | None:
        """The client as the ledger knows it; None if its data are not in the ledger. Reads no data."""
        name = dataset_name(settings)
        for account in self._accounts(name):
            size = account.public_size
            return Client(name, size, account.fingerprint, budget_of(settings, size), settings)
        return None

    def took_part(self, dataset: str, run: str) -> bool:
        return any(paid.run == run for one in self._accounts(dataset) for paid in one.rounds)

    def _accounts(self, dataset: str) -> list[Account]:
        return [one for one in self.ledger.accounts() if one.dataset == dataset and one.retired is None]

    def profiles(self, clients: Sequence[Client]) -> list[ClientProfile]:
        """The clients' public numbers, with the ledger's present entries."""
        retired = self.ledger.retirements()
        datasets = [client.dataset for client in clients]
        spent, arithmetics = self.ledger.spent_all(datasets), self.ledger.arithmetics(datasets)
        return [
            profile_of(client.settings, client.public_size, entries, arithmetic, retired)
            for client, entries, arithmetic in zip(clients, spent, arithmetics, strict=True)
        ]

    def accept(
        self, asked: Iterable[tuple[str, Client, RecordDict]]
    ) -> tuple[list[AcceptedRound], dict[str, Refusal]]:
        """Split requests into accepted rounds and refusals, by each client's own policy.

        asked: for each round, a key, the client, and the message's content.
        """
        accepted: list[AcceptedRound] = []
        refusals: dict[str, Refusal] = {}
        # Many clients get the same content, which is read once. It is kept, so that its id stays its own.
        read: dict[int, tuple[RecordDict, RoundPlan | FlDpError]] = {}
        for key, client, content in asked:
            if id(content) not in read:
                read[id(content)] = content, _read(content)
            try:
                if isinstance(plan := read[id(content)][1], FlDpError):
                    raise plan
                check_plan(plan, client.settings, client.public_size, client.task)
                accepted.append(AcceptedRound(key, client, plan))
            except FlDpError as error:
                refusals[key] = refusal_of(error)
        unprotected = {(one.plan.run, one.plan.server_round) for one in accepted if not one.plan.private}
        for run, server_round in sorted(unprotected):  # before anything is trained
            logger.warning("%s: run %s, round %d", NOT_PRIVATE, run, server_round)
        warn_of_refusals(refusals)
        return accepted, refusals

    def require_room(self, accepted: AcceptedRound) -> None:
        """BudgetExhaustedError if not one step of the round would fit. Pays for nothing."""
        budget, spent = accepted.client.budget, self.ledger.spent(accepted.client.dataset)
        if not budget.steps_that_fit(accepted.entry.once, spent):
            raise BudgetExhaustedError(f"Not one more step fits: {budget.in_words(spent)}.")


def expected_weights(content: RecordDict, model: str, specs: Mapping[str, ArraySpec]) -> dict[str, NDArray]:
    """The weights in a round's message; DeclinedError unless they fit the model, within MOST_WEIGHT."""
    try:
        weights = decode(array_record(content, ARRAYS), specs)
    except ConfigError as error:
        raise DeclinedError(f"the weights received for model {model}: {error}") from None
    if (name := beyond_use(weights)) is not None:
        raise DeclinedError(
            f"the weights received for model {model}: array {name!r} holds values beyond {MOST_WEIGHT:g}, "
            "which are too large to learn from."
        )
    return weights


class Training(Protocol):
    def prepare(self, plan: RoundPlan, content: RecordDict) -> None:
        """Check, before it is paid for, that the round can be trained; FlDpError says why not."""
        ...

    def train(self, paid: Paid[AcceptedRound]) -> Mapping[str, Any] | None:
        """The trainable parameters after the paid steps, by name; None if not finite."""
        ...


def play(
    rounds: ClientRounds, client: Client, content: RecordDict, training: Training
) -> LocalUpdate | Refusal:
    """One client's round, from the message's content to the answer.

    Raises what `training.prepare` raises, before anything is paid for; and LedgerError, after which no update
    may leave.
    """
    accepted, refusals = rounds.accept([(client.dataset, client, content)])
    if refusals:
        return refusals[client.dataset]
    if client.settings.approve:
        require_approval(accepted[0], rounds.ledger.spent(client.dataset))
    training.prepare(accepted[0].plan, content)
    return pay_and_answer(rounds.ledger, accepted[0], training.train, update_of)


def update_of(paid: Paid[AcceptedRound], arrays: Mapping[str, Any], spent: tuple[Entry, ...]) -> LocalUpdate:
    """The answer to a round that was trained. spent: all that its data have spent."""
    budget = paid.accepted.client.budget
    return LocalUpdate(arrays, spent, paid.steps, budget.epsilon_of(spent), budget.delta)


def _read(content: RecordDict) -> RoundPlan | FlDpError:
    try:
        return plan_from_content(content)[0]
    except FlDpError as error:
        return error
