"""Reads the header of a run's state, of format 1 to 5, and returns one of format 5."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from fl_dp.accounting.events import beyond
from fl_dp.errors import ConfigError
from fl_dp.federation.server.client_record import client_of
from fl_dp.records import REFUTED

VERSION = 5

# What could not always be chosen, and what was done then: a state that lacks a key is older than the key.
_ADDED = {
    "loss": "cross-entropy",
    "aggregation": "mean",
    "server-optimizer": "fedavg",
    "server-learning-rate": "auto",
    "arithmetic": REFUTED,
    "task": "",
    "data-name": "",
    "evaluate": "server",
    "metrics": "",
    "learning-rate-schedule": "constant",
    "optimizer": "sgd",
    "optimizer-settings": "",
    "optimizer-state": "reset",
    "class-weights": "",
    "precision": "float32",
    "participations": 0,
    "unit": "record",
    "records-per-person": 0,
    "records-chosen": "first",
    "local-algorithm": "fedavg",
    "pull": 0.0,
    "strategy": "",
    "personal": "",
    "max-weight": 0.0,
    "min-updates": 1,
    "malicious-clients": 1,
    "keep-model": "last",
    "average-decay": 0.9,
    "augmentation": "",
    "views": 1,
    "features": "",
    "adaptive-clipping": "",
    "secure-dropouts": 0,
    "secure-colluders": 1,
}
_PROFILE_OF_1 = 10  # values of a client's profile, then those of its record; neither ended with an arithmetic
_PROFILE_OF_3 = 11
_NO_SECURE_SUMS = (False, 0.0)  # what a profile of format 4 has more than one of 3


def in_this_format(path: Path, header: dict[str, Any]) -> dict[str, Any]:
    """The header, brought into this format; ConfigError, with what to do, for a format that is not known."""
    if header["version"] == 1:
        header = _from_1(header)
    elif header["version"] not in (2, 3, 4, VERSION):
        raise ConfigError(
            f"{path}: is of format {header['version']}, this fl_dp reads 1 to {VERSION}; resume the run "
            "with the fl_dp that started it."
        )
    header = header if header["version"] in (3, 4, VERSION) else _from_2(header)
    header = header if header["version"] in (4, VERSION) else _from_3(header)
    header = header if header["version"] == VERSION else _from_4(header)
    return {**header, "settings": {**_ADDED, **header["settings"]}}


def _from_4(header: dict[str, Any]) -> dict[str, Any]:
    """What the run has asked for was not kept: all that came after the first registration counts as that."""
    return {**header, "clients": [_row_from_4(row) for row in header["clients"]], "version": VERSION}


def _row_from_4(row: list[Any]) -> list[Any]:
    client = client_of([*row, []])
    asked = beyond((*client.spent, *client.unconfirmed), client.before)
    return json.loads(replace(client, asked=asked).row)  # type: ignore[no-any-return]


def _from_3(header: dict[str, Any]) -> dict[str, Any]:
    """No client had said whether it takes part in secure sums: none does, until it registers again."""
    return {**header, "clients": [_row_from_3(row) for row in header["clients"]], "version": 4}


def _row_from_3(row: list[Any]) -> list[Any]:
    return [*row[:_PROFILE_OF_3], *_NO_SECURE_SUMS, *row[_PROFILE_OF_3:]]


def _from_2(header: dict[str, Any]) -> dict[str, Any]:
    """What the clients' data had spent before was not kept: all counts as this run's."""
    return {**header, "clients": [[*row, []] for row in header["clients"]], "started": "", "version": 3}


def _from_1(header: dict[str, Any]) -> dict[str, Any]:
    """Of 0.1.0: clients were members, their numbers were not shown, no report named an accountant."""
    line = header["line"] and json.dumps(_line_from_1(header))
    return {
        **header,
        "numerics": 1,
        "origin": header["run"],
        "clients": [_row_from_1(row) for row in header["members"]],
        "registered": header["heard"],
        "line": line,
    }


def _row_from_1(row: list[Any]) -> list[Any]:
    return [*row[:_PROFILE_OF_1], REFUTED, *row[_PROFILE_OF_1:], REFUTED]


def _line_from_1(header: dict[str, Any]) -> dict[str, Any]:
    line: dict[str, Any] = json.loads(header["line"])
    accountants = {
        one.name: one.profile.accountant
        for one in (client_of(_row_from_4(_row_from_3([*_row_from_1(row), []]))) for row in header["members"])
    }
    clients = {
        name: {**client, "accountant": accountants[name], "arithmetic": REFUTED, "reported": {}}
        for name, client in line["clients"].items()
    }
    federation = {
        **line["federation"], "accountants": sorted(set(accountants.values())), "arithmetic": REFUTED,
        "unit": "record",
    }  # fmt: skip
    metrics = {} if line["accuracy"] is None else {"accuracy": line["accuracy"]}
    return {**line, "clients": clients, "federation": federation, "metrics": metrics}
