"""Reads the header of a run's state, of format 1 or 2, and returns one of format 2."""

import json
from pathlib import Path
from typing import Any

from fl_dp.errors import ConfigError
from fl_dp.federation.server.client_record import client_of

VERSION = 2

# What could not be chosen in format 1.
_SETTINGS_OF_1 = {
    "loss": "cross-entropy",
    "aggregation": "mean",
    "server-optimizer": "fedavg",
    "server-learning-rate": "auto",
}


def in_this_format(path: Path, header: dict[str, Any]) -> dict[str, Any]:
    """The header, brought into this format; ConfigError, with what to do, for a format that is not known."""
    if header["version"] == 1:
        return _from_1(header)
    if header["version"] != VERSION:
        raise ConfigError(
            f"{path}: is of format {header['version']}, this fl_dp reads 1 and {VERSION}; resume the run "
            "with the fl_dp that started it."
        )
    return header


def _from_1(header: dict[str, Any]) -> dict[str, Any]:
    """Of 0.1.0: clients were members, their numbers were not shown, no report named an accountant."""
    line = header["line"] and json.dumps(_line_from_1(header))
    return {
        **header,
        "settings": {**_SETTINGS_OF_1, **header["settings"]},
        "arithmetic": 1,
        "clients": header["members"],
        "registered": header["heard"],
        "line": line,
    }


def _line_from_1(header: dict[str, Any]) -> dict[str, Any]:
    line: dict[str, Any] = json.loads(header["line"])
    accountants = {one.name: one.profile.accountant for one in map(client_of, header["members"])}
    clients = {
        name: {**client, "accountant": accountants[name], "reported": {}}
        for name, client in line["clients"].items()
    }
    federation = {**line["federation"], "accountants": sorted(set(accountants.values()))}
    return {**line, "clients": clients, "federation": federation}
