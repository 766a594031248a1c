"""The client app of `flwr run` in a checkout, where Flower simulates all clients on one machine.

The operator of such a run operates every client too, so client settings follow from the run config, as in
`run.sh`. `client.py` never runs this, whatever a server sends.
"""

from pathlib import Path
from typing import Any

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fl_dp.config.client import ClientConfig
from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.federation.client.answers import CONFIG_KEY, answer, own_settings, register, train_round
from fl_dp.launch.clients import client_config

app = ClientApp()


@app.query()
def query(message: Message, context: Context) -> Message:
    """Who this client is, and what it has spent."""
    return answer(message, context, register, settings_of)


@app.train()
def train(message: Message, context: Context) -> Message:
    """One round of private training, or the reason why there was none."""
    return answer(message, context, train_round, settings_of)


def settings_of(context: Context) -> ClientConfig:
    """The client's own settings if it names any, else those that the run config gives.

    ConfigError if Flower simulates another number of clients than the run config says.
    """
    if CONFIG_KEY in context.node_config:
        return own_settings(context)
    config = RunConfig.from_flat(context.run_config)
    return client_config(
        config, _number(context.node_config, config), _ledgers(config, context.run_id), one_run=True
    )


def _number(node: Any, config: RunConfig) -> int:
    simulated = int(node.get("num-partitions", 0))
    if simulated != config.clients:
        raise ConfigError(
            f"clients = {config.clients}: Flower simulates {simulated} SuperNodes; set the same number: "
            f"flwr federation simulation-config FEDERATION --num-supernodes {config.clients}."
        )
    return int(node["partition-id"])


def _ledgers(config: RunConfig, run: int) -> Path:
    """Below the run's folder; the server derives the same path."""
    return Path(config.out or f"runs/{run}").absolute() / "ledgers"
