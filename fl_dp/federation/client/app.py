"""The client's end: two messages, hello and a round, answered on the client's own terms.

Every message starts a fresh process in Flower's deployment, so what is heavy is imported where it is used.
"""

import logging
from collections.abc import Callable
from pathlib import Path

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp

from fl_dp.config.client import ClientConfig
from fl_dp.errors import ConfigError, DeclinedError
from fl_dp.federation.client.policy import check_plan
from fl_dp.federation.client.profile import budget_of, profile_of
from fl_dp.federation.client.registration import dataset_name, enrol
from fl_dp.federation.client.settings import client_settings
from fl_dp.federation.devices import find_device
from fl_dp.federation.wire.arrays import decode, load_arrays, specs, state_arrays
from fl_dp.federation.wire.messages import (
    plan_from_content,
    profile_to_content,
    refusal_of,
    refusal_to_content,
    update_to_content,
)
from fl_dp.reporting.reports import NOT_PRIVATE

logger = logging.getLogger("fl_dp")
app = ClientApp()


@app.query()
def hello(message: Message, context: Context) -> Message:
    """Who this client is, and what it has spent."""
    return answer(message, context, say_hello)


@app.train()
def train(message: Message, context: Context) -> Message:
    """One round of private training, or the reason why not."""
    return answer(message, context, train_round)


def answer(
    message: Message, context: Context, handle: Callable[[Message, ClientConfig], RecordDict]
) -> Message:
    """The reply to `message`: what `handle` says, or a refusal.

    The one place where a client's exceptions end. Their tracebacks stay in the client's own log;
    what leaves is `refusal_of` the error.
    """
    try:
        content = handle(message, client_settings(context.node_config))
    except DeclinedError as error:
        logger.warning("declined: %s", error)
        content = refusal_to_content(refusal_of(error))
    except Exception as error:
        logger.exception("%s message failed", message.metadata.message_type)
        content = refusal_to_content(refusal_of(error))
    return Message(content, reply_to=message)


def say_hello(message: Message, config: ClientConfig) -> RecordDict:
    """Enter the data in the ledger, on their first use, and tell the public numbers."""
    from fl_dp.accounting.ledger.ledger import Ledger
    from fl_dp.data.partition import load_part

    data = load_part(config)
    with Ledger.open(Path(config.ledger)) as ledger:
        public_size = enrol(ledger, data, config)
        spent, retired = ledger.spent(dataset_name(config)), ledger.retirements()
    return profile_to_content(profile_of(config, public_size, spent, retired))


def train_round(message: Message, config: ClientConfig) -> RecordDict:
    """Train as the message asks, if the policy allows it and the ledger has steps left."""
    from fl_dp.accounting.ledger.ledger import Ledger
    from fl_dp.data.partition import load_part
    from fl_dp.models.build import build_model
    from fl_dp.training.local_round import train_locally

    plan, received = plan_from_content(message.content)
    data = load_part(config)
    with Ledger.open(Path(config.ledger)) as ledger:
        public_size = enrol(ledger, data, config)
        check_plan(plan, config, public_size)
        if not plan.private:
            logger.warning("%s: run %s, round %d", NOT_PRIVATE, plan.run, plan.server_round)
        model = build_model(plan.model, data.input_shape, data.num_classes, seed=0)
        try:
            load_arrays(model, decode(received, specs(state_arrays(model))))
        except ConfigError as error:
            raise DeclinedError(f"the weights received for model {plan.model}: {error}") from None
        update = train_locally(
            model,
            data,
            plan,
            ledger,
            dataset_name(config),
            budget_of(config, public_size),
            public_size=public_size,
            physical_batch_size=config.physical_batch_size,
            memory_mib=config.memory_mib,
            device=find_device(config.device),
        )
    return update_to_content(update)
