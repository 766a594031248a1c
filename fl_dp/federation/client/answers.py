"""A client's answers to registration, a round and an evaluation, by its own settings."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from flwr.app import Context, Message, MessageType, RecordDict

from fl_dp.clean_text import one_line
from fl_dp.config.client import ClientConfig
from fl_dp.data.persons import Examples
from fl_dp.errors import ConfigError, DeclinedError, FlDpError, TaskError
from fl_dp.federation.client.evaluation import NO_TEST_RECORDS, Evaluation
from fl_dp.federation.client.journal import Note
from fl_dp.federation.client.own_training import OwnTraining
from fl_dp.federation.client.payment import CLIENTS_LOGGER, DataAccount, refusal_of, refuse
from fl_dp.federation.client.policy import MAX_RUN_NAME
from fl_dp.federation.client.round import ClientRounds, Training, play
from fl_dp.federation.wire.evaluation import SiteHistogram, evaluation_from_content, histogram_to_content
from fl_dp.federation.wire.messages import (
    plan_from_content,
    profile_to_content,
    refusal_to_content,
    update_to_content,
)
from fl_dp.records import LocalUpdate, Refusal, total_steps
from fl_dp.tasks.records import load_part

logger = logging.getLogger(CLIENTS_LOGGER)

CONFIG_KEY = "client-config"  # of a node config, as Flower calls it
_ONLY = "the only one"
Result = TypeVar("Result", LocalUpdate, SiteHistogram)


def own_settings(context: Context) -> ClientConfig:
    """The client's settings. Its node config names the file, on its own disk, whatever a server sends.

    Errors in the file name paths, so they stay in the client's own log.
    """
    try:
        if CONFIG_KEY not in context.node_config:
            raise ConfigError(
                f"this client has no settings: give Flower's node --node-config '{CONFIG_KEY}=\"FILE\"'."
            )
        return ClientConfig.from_toml(Path(str(context.node_config[CONFIG_KEY])))
    except ConfigError as error:
        raise FlDpError("its own settings cannot be used; its own log says why") from error


def answer(
    message: Message,
    context: Context,
    handle: Callable[[Message, ClientConfig], RecordDict],
    settings_of: Callable[[Context], ClientConfig] = own_settings,
) -> Message:
    """The reply to `message`: what `handle` returns, or a refusal. settings_of: finds the settings.

    All of a client's exceptions end here. Their tracebacks stay in the client's own log.
    """
    try:
        content = handle(message, settings_of(context))
    except Exception as error:
        content = refusal_to_content(refuse([_ONLY], error)[_ONLY])
    return Message(content, reply_to=message)


def register(message: Message, config: ClientConfig) -> RecordDict:
    """Enter the data in the ledger on their first use, and answer with the public numbers."""
    note = Note(config.ledger, config.client)
    with noted(note), ClientRounds.open(config) as rounds:
        (client,) = rounds.register([(config, load_part(config))])
        content = profile_to_content(rounds.profiles([client])[0])
        spent = _spent(rounds, client)
        note.learn(dataset=client.dataset, before=spent["after"], budget=client.budget.epsilon)
        note.write("registered", **spent)
        return content


def train_round(message: Message, config: ClientConfig) -> RecordDict:
    """Train as the message asks, if the policy allows it and the ledger has steps left."""
    return trained_round(message, config, OwnTraining)


def trained_round(
    message: Message, config: ClientConfig, make: Callable[[ClientConfig, Examples], Training]
) -> RecordDict:
    """The answer to a round's message. make: makes the training from the client's settings and data."""
    note = Note(config.ledger, config.client)
    with noted(note):
        plan, _ = plan_from_content(message.content)
        note.learn(run=one_line(plan.run, MAX_RUN_NAME), round=plan.server_round)  # not checked yet
        note.write("asked", steps=plan.steps)
        data = load_part(config)
        with ClientRounds.open(config) as rounds:
            (client,) = rounds.register([(config, data)])
            result = _noting(
                note, rounds, client, lambda: play(rounds, client, message.content, make(config, data))
            )
            if isinstance(result, Refusal):
                return refusal_to_content(result)
            note.write("trained", steps=result.steps)
            return update_to_content(result)


def evaluate_model(message: Message, config: ClientConfig) -> RecordDict:
    """Evaluate the message's model on the client's own test records, if their account has room."""
    plan, note = evaluation_from_content(message.content), Note(config.ledger, config.client)
    with noted(note):
        if not config.test:
            raise DeclinedError(f"this client {NO_TEST_RECORDS}.")
        note.learn(run=one_line(plan.run, MAX_RUN_NAME), round=plan.server_round)
        part = load_part(config)
        with ClientRounds.open(config) as rounds:
            (client,) = rounds.register([(config, part)])
            assert client.test is not None
            result = _noting(
                note,
                rounds,
                client.test,
                lambda: Evaluation(client, plan, message.content, part).play(rounds),
            )
            if isinstance(result, Refusal):
                return refusal_to_content(result)
            note.write("evaluated")
            return histogram_to_content(result)


HANDLERS = {
    MessageType.QUERY: register,
    MessageType.TRAIN: train_round,
    MessageType.EVALUATE: evaluate_model,
}


def _spent(rounds: ClientRounds, account: DataAccount) -> dict[str, Any]:
    """What the data have spent in total, for the journal: epsilon, and number of steps.

    Both are None if the ledger cannot be read: a failure here must not change the answer.
    """
    try:
        spent = rounds.ledger.spent(account.dataset)
        return {"after": account.budget.epsilon_of(spent), "total": total_steps(spent)}
    except FlDpError as error:
        logger.warning("what is spent cannot be recorded: %s", error)
        return {"after": None, "total": None}


def _noting(
    note: Note, rounds: ClientRounds, account: DataAccount, work: Callable[[], Result | Refusal]
) -> Result | Refusal:
    """What `work` returns. The journal's lines say what the account had spent before, and has spent since.

    An exception may come after the payment, so its line says what is spent, too.
    """
    before = _spent(rounds, account)["after"]
    note.learn(dataset=account.dataset, before=before, budget=account.budget.epsilon)
    try:
        result = work()
    except Exception:
        note.learn(**_spent(rounds, account))
        raise
    if isinstance(result, Refusal):
        note.write(result.status, reason=result.reason, **_spent(rounds, account))
    else:
        note.learn(after=result.epsilon, total=total_steps(result.spent))
    return result


@contextmanager
def noted(note: Note) -> Iterator[None]:
    """Note an exception in the journal, in words that quote no record, and raise it again."""
    try:
        yield
    except Exception as error:
        refusal = refusal_of(error)
        reason = refusal.reason
        if isinstance(error, FlDpError) and not isinstance(error, TaskError):
            reason = one_line(error.own_words)
        note.write(refusal.status, reason=reason)
        raise
