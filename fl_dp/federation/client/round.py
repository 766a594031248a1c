"""The client's side of a round: accept it, pay, train, settle, answer.

`ClientRounds` takes lists of clients that share one ledger, and `play` the training of one as an argument. A
real client is a list of one; a simulation is a list of many, trained by other processes; an audit is a list
of one with canaries.

    register -> accept -> pay -> (the training that is passed in) -> settle

Only an accepted round can be paid for, and only a paid one can be trained and settled. A payment is on the
disk before the first step, and stays spent whatever happens to the training.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from flwr.app import RecordDict

from fl_dp.config.client import ClientConfig
from fl_dp.errors import BudgetExhaustedError, ConfigError, DeclinedError, FlDpError
from fl_dp.federation.client.approval import require_approval
from fl_dp.federation.client.attempt import RoundOutcome, attempt
from fl_dp.federation.client.policy import check_plan
from fl_dp.federation.client.profile import budget_of, evaluation_budget_of, profile_of
from fl_dp.federation.client.registration import (
    check_held,
    dataset_name,
    held_out_registration,
    registration_of,
    task_identity,
)
from fl_dp.federation.client.stages import AcceptedRound, Client, HeldOutAccount, PaidRound
from fl_dp.federation.wire.arrays import ArraySpec, NDArray, decode
from fl_dp.federation.wire.messages import ARRAYS, array_record, beyond_use, plan_from_content, refusal_of
from fl_dp.records import MOST_WEIGHT, ClientProfile, Entry, LocalUpdate, Refusal, RoundPlan
from fl_dp.reporting.reports import NOT_PRIVATE

if TYPE_CHECKING:
    from fl_dp.accounting.ledger.ledger import Ledger
    from fl_dp.data.persons import Examples
    from fl_dp.statements import Statement
    from fl_dp.tasks.held_out import HeldOut

CLIENTS_LOGGER = (
    "fl_dp.clients"  # a log of its own where server and clients are one process: it may quote data
)
logger = logging.getLogger(CLIENTS_LOGGER)


Answers = dict[str, LocalUpdate | Refusal]  # by the round's key


class ClientRounds:
    """The rounds of clients that share one ledger.

    held_out: loads a client's test records, with the ledger's key of the split; by default from its files.
    """

    def __init__(
        self, ledger: "Ledger", held_out: "Callable[[ClientConfig, bytes], HeldOut] | None" = None
    ) -> None:
        self.ledger = ledger
        self._held_out = held_out

    @classmethod
    def open(cls, settings: ClientConfig) -> Self:
        """Open the ledger that the settings name; LedgerError if it is not sound."""
        from fl_dp.accounting.ledger.ledger import Ledger

        return cls(Ledger.open(Path(settings.ledger), one_run=settings.one_run_ledger))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.ledger.close()

    def register(self, clients: Sequence[tuple[ClientConfig, "Examples"]]) -> list[Client]:
        """Enter the clients' data in the ledger on their first use, in one transaction.

        DataError or LedgerError if they are more than declared, in the settings or in the ledger. LedgerError
        if data that have spent would start at zero: see `Ledger.register_all`.
        """
        wanted = [registration_of(data, settings) for settings, data in clients]
        held_out = {place: self._load_held_out(one) for place, (one, _) in enumerate(clients) if one.test}
        tests = {place: held_out_registration(one, clients[place][0]) for place, one in held_out.items()}
        sizes = self.ledger.register_all([*wanted, *tests.values()])
        accounts: dict[int, HeldOutAccount] = {}
        for (place, declared), size in zip(tests.items(), sizes[len(wanted) :], strict=True):
            settings, records = clients[place][0], held_out[place]
            check_held(records.units, declared.dataset, size, settings)
            budget = evaluation_budget_of(settings, size)
            accounts[place] = HeldOutAccount(declared.dataset, size, declared.fingerprint, budget, records)
        for (settings, data), size, declared in zip(clients, sizes, wanted, strict=False):
            check_held(len(data), declared.dataset, size, settings)
        return [
            Client(
                settings,
                declared.dataset,
                size,
                declared.fingerprint,
                budget_of(settings, size),
                task_identity(settings),
                accounts.get(place),
            )
            for place, ((settings, _), size, declared) in enumerate(zip(clients, sizes, wanted, strict=False))
        ]

    def _load_held_out(self, settings: ClientConfig) -> "HeldOut":
        from fl_dp.tasks.records import load_held_out  # late: it imports torch

        key = self.ledger.split_key() if settings.test_share else b""
        return (self._held_out or load_held_out)(settings, key)

    def known(self, settings: ClientConfig) -> Client | None:
        """The client as the ledger knows it; None if its data are not in the ledger. Reads no data."""
        name = dataset_name(settings)
        for account in self.ledger.accounts():
            if account.dataset == name and account.retired is None:
                size = account.public_size
                return Client(settings, name, size, account.fingerprint, budget_of(settings, size))
        return None

    def took_part(self, dataset: str, run: str) -> bool:
        """Whether the data have paid for any round of the run."""
        accounts = [one for one in self.ledger.accounts() if one.dataset == dataset and one.retired is None]
        return any(paid.run == run for one in accounts for paid in one.rounds)

    def statement(self, clients: Sequence[Client], run: str, weights: str) -> "Statement":
        """The ledger's statement about these clients' data, see `make_statement`."""
        from fl_dp.federation.client.stating import make_statement

        return make_statement(self.ledger, clients, run, weights)

    def profiles(self, clients: Sequence[Client]) -> list[ClientProfile]:
        """The clients' public numbers, with the ledger's present entries."""
        retired = self.ledger.retirements()
        datasets = [client.dataset for client in clients]
        spent, arithmetics = self.ledger.spent_all(datasets), self.ledger.arithmetics(datasets)
        return [
            profile_of(client.settings, client.public_size, entries, arithmetic, retired)
            for client, entries, arithmetic in zip(clients, spent, arithmetics, strict=True)
        ]

    def spent(self, client: Client) -> tuple[Entry, ...]:
        """What the client's data have spent so far."""
        return tuple(self.ledger.spent(client.dataset))

    def accept(
        self, asked: Iterable[tuple[str, Client, RecordDict]]
    ) -> tuple[list[AcceptedRound], dict[str, Refusal]]:
        """Split requests into accepted rounds and refusals, by each client's own policy.

        asked: for each round, a key, the client, and the message's content.
        """
        accepted: list[AcceptedRound] = []
        refusals: dict[str, Refusal] = {}
        # Many clients get the same content, which is read once; kept here, so that no other gets its id.
        read: dict[int, tuple[RecordDict, RoundPlan | FlDpError]] = {}
        for key, client, content in asked:
            if id(content) not in read:
                read[id(content)] = content, _read(content)
            try:
                accepted.append(_accept(key, client, read[id(content)][1]))
            except FlDpError as error:
                refusals[key] = refusal_of(error)
        _warn_of_unprotected(accepted)
        _warn_of_refusals(refusals)
        return accepted, refusals

    def require_room(self, accepted: AcceptedRound) -> None:
        """BudgetExhaustedError if not one step of the round would fit. Pays for nothing."""
        budget, spent = accepted.client.budget, self.spent(accepted.client)
        if not budget.steps_that_fit(accepted.entry.once, spent):
            raise BudgetExhaustedError(f"Not one more step fits: {budget.in_words(spent)}.")

    def pay(
        self, accepted: Sequence[AcceptedRound], repeats: Callable[[AcceptedRound], str] = lambda one: ""
    ) -> tuple[list[PaidRound], dict[str, Refusal]]:
        """Reserve the rounds' steps, on the disk, in one transaction. Returns paid rounds and refusals.

        repeats: returns the `inputs` of a round's `ReservationRequest`: if the round is requested again with
        the same, its result is the same, and it is free. Empty: never free.
        LedgerError if the ledger cannot be written; then nothing is paid for.
        """
        from fl_dp.accounting.ledger.requests import ReservationRequest

        paid: list[PaidRound] = []
        refusals: dict[str, Refusal] = {}
        requests = [
            ReservationRequest(
                one.client.dataset,
                one.plan.run,
                one.plan.server_round,
                one.entry,
                one.client.budget if one.plan.private else None,
                inputs=repeats(one),
                arithmetic=one.plan.arithmetic,
            )
            for one in accepted
        ]
        for one, result in zip(accepted, self.ledger.reserve_all(requests), strict=True):
            if isinstance(result, DeclinedError):
                refusals[one.key] = refusal_of(result)
            else:
                paid.append(PaidRound(one, result))
        _warn_of_refusals(refusals)
        return paid, refusals

    def settle(self, rounds: Sequence[tuple[PaidRound, RoundOutcome]]) -> Answers:
        """The answers of finished rounds. Trained rounds are committed first, in one transaction; the others
        stay reserved, which counts as spent.

        LedgerError if the ledger cannot be written; then no update may leave.
        """
        trained = [(paid, result) for paid, result in rounds if not result.problem]
        self.ledger.commit_all(paid.reservation for paid, _ in trained)
        spent = self.ledger.spent_all(paid.accepted.client.dataset for paid, _ in trained)
        answers: Answers = {
            paid.accepted.key: _failed(paid, result) for paid, result in rounds if result.problem
        }
        for (paid, result), entries in zip(trained, spent, strict=True):
            budget = paid.accepted.client.budget
            answers[paid.accepted.key] = LocalUpdate(
                result.arrays, entries, paid.steps, budget.epsilon_of(entries), budget.delta
            )
        return answers

    def erase_keys(self, run: str, up_to_round: int) -> None:
        """Erase the payment keys of these rounds, whose results are kept; then none of them can be repeated.

        LedgerError if the ledger cannot be written; then nothing of the rounds may leave.
        """
        self.ledger.erase_keys(run, up_to_round)


def expected_weights(content: RecordDict, model: str, specs: Mapping[str, ArraySpec]) -> dict[str, NDArray]:
    """The weights in a round's message; DeclinedError unless they fit the model and MOST_WEIGHT."""
    try:
        weights = decode(array_record(content, ARRAYS), specs)
    except ConfigError as error:
        raise DeclinedError(f"the weights received for model {model}: {error}") from None
    if (name := beyond_use(weights)) is not None:
        raise DeclinedError(
            f"the weights received for model {model}: array {name!r} holds values beyond {MOST_WEIGHT:g}, "
            "from which nothing can be learnt."
        )
    return weights


class Training(Protocol):
    """How one client is trained."""

    def prepare(self, plan: RoundPlan, content: RecordDict) -> None:
        """Check, before it is paid for, that the round can be trained; FlDpError says why not."""
        ...

    def train(self, paid: PaidRound) -> Mapping[str, Any] | None:
        """The trainable parameters after the paid steps, by name; None if not finite."""
        ...


def play(
    rounds: ClientRounds, client: Client, content: RecordDict, training: Training
) -> LocalUpdate | Refusal:
    """One client's round, from the message's content to the answer.

    Raises what `training.prepare` raises, before anything is paid for; and LedgerError, after which no update
    may leave.
    """
    key = client.dataset
    accepted, refusals = rounds.accept([(key, client, content)])
    if refusals:
        return refusals[key]
    if client.settings.approve:
        require_approval(accepted[0], rounds.spent(client))
    training.prepare(accepted[0].plan, content)
    paid, refusals = rounds.pay(accepted)
    if refusals:
        return refusals[key]
    return rounds.settle([(paid[0], attempt(lambda: training.train(paid[0])))])[key]


def refuse(keys: Iterable[str], error: Exception) -> dict[str, Refusal]:
    """A refusal for each key, where `ClientRounds` or `play` raised `error`. Only the clients' own log gets
    the error itself.
    """
    if isinstance(error, DeclinedError):
        logger.warning("declined: %s", error)
    else:
        logger.error("a message could not be answered", exc_info=error)
    return dict.fromkeys(keys, refusal_of(error))


def _read(content: RecordDict) -> RoundPlan | FlDpError:
    try:
        return plan_from_content(content)[0]
    except FlDpError as error:
        return error


def _accept(key: str, client: Client, plan: RoundPlan | FlDpError) -> AcceptedRound:
    if isinstance(plan, FlDpError):
        raise plan
    check_plan(plan, client.settings, client.public_size, client.task)
    return AcceptedRound(key, client, plan)


def _warn_of_unprotected(accepted: Sequence[AcceptedRound]) -> None:
    """Warn for each run and round in the clients' own log, before anything is trained."""
    for run, server_round in sorted(
        {(one.plan.run, one.plan.server_round) for one in accepted if not one.plan.private}
    ):
        logger.warning("%s: run %s, round %d", NOT_PRIVATE, run, server_round)


def _warn_of_refusals(refusals: Mapping[str, Refusal]) -> None:
    """Warn in the clients' own log, once for all that refuse for the same reason."""
    for (status, reason), count in Counter((one.status, one.reason) for one in refusals.values()).items():
        logger.warning("%s%s: %s", status, f" by {count} clients" if count > 1 else "", reason)


def _failed(paid: PaidRound, result: RoundOutcome) -> Refusal:
    client, plan = paid.accepted.client.settings.client, paid.accepted.plan
    logger.warning("client %s failed: %s", client, result.problem)
    if result.log:
        logger.error("client %s, round %d:\n%s", client, plan.server_round, result.log)
    return Refusal("failed", result.problem)
