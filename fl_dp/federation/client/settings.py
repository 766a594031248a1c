"""Finds a client's settings: on its own disk, never in what the server sends."""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fl_dp.config.client import ClientConfig
from fl_dp.errors import ConfigError

CONFIG_KEY = "client-config"  # of a node config, as Flower calls it
TEMPLATE_VARIABLE = "FL_DP_CLIENT_CONFIG"  # in simulation: one file for all clients


def has_settings(node_config: Mapping[str, Any]) -> bool:
    """Whether the node config, or the environment, names the client's settings."""
    return CONFIG_KEY in node_config or TEMPLATE_VARIABLE in os.environ


def client_settings(node_config: Mapping[str, Any]) -> ClientConfig:
    """The settings of the client that has `node_config`.

    A real client names its TOML file in its node config. Simulated clients share the file in
    FL_DP_CLIENT_CONFIG; their name and part come from Flower's numbering. ConfigError if there is neither.
    """
    if CONFIG_KEY in node_config:
        return ClientConfig.from_toml(Path(str(node_config[CONFIG_KEY])))
    template = os.environ.get(TEMPLATE_VARIABLE)
    if template is None:
        raise ConfigError(
            f"this client has no settings: give Flower's node --node-config '{CONFIG_KEY}=\"FILE\"', "
            f"or set {TEMPLATE_VARIABLE} for simulated clients."
        )
    return _numbered(ClientConfig.from_toml(Path(template)), node_config)


def _numbered(template: ClientConfig, node_config: Mapping[str, Any]) -> ClientConfig:
    try:
        return numbered(template, int(node_config["partition-id"]), int(node_config["num-partitions"]))
    except KeyError as missing:
        raise ConfigError(f"the node config of a simulated client lacks {missing}.") from None


def numbered(template: ClientConfig, part: int, parts: int) -> ClientConfig:
    """The settings of the simulated client that holds part `part` of `parts`; its number is its name."""
    return dataclasses.replace(template, client=str(part), partition_id=part, num_partitions=parts)
