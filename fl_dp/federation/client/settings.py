"""Finds a client's settings: on its own disk, never in what the server sends."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fl_dp.config.client import ClientConfig
from fl_dp.errors import ConfigError

CONFIG_KEY = "client-config"  # of a node config, as Flower calls it


def client_settings(node_config: Mapping[str, Any]) -> ClientConfig:
    """The settings in the TOML file that the node config names; ConfigError if it names none."""
    if CONFIG_KEY not in node_config:
        raise ConfigError(
            f"this client has no settings: give Flower's node --node-config '{CONFIG_KEY}=\"FILE\"'."
        )
    return ClientConfig.from_toml(Path(str(node_config[CONFIG_KEY])))


def numbered(template: ClientConfig, part: int, parts: int) -> ClientConfig:
    """The settings of the simulated client that holds part `part` of `parts`; its number is its name."""
    return dataclasses.replace(template, client=str(part), partition_id=part, num_partitions=parts)
