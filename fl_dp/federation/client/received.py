"""Saves the last global model that a client received to its disk, for evaluation there.

Data flow one way: the process that answers a server writes the model and reads no test row. So nothing that
is sent can depend on a test row, not even the time that an answer takes.
"""

import io
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fl_dp.config.client import ClientConfig
from fl_dp.config.files import DAMAGED
from fl_dp.data.npz_files import read_npz
from fl_dp.durable_files import private_folder, write_whole
from fl_dp.errors import DataError
from fl_dp.federation.client.registration import account_digest
from fl_dp.records import RoundPlan

logger = logging.getLogger("fl_dp.clients")

FOLDER = "received"  # beside the ledger
_ABOUT = " about"  # not the name of a weight


@dataclass(frozen=True, slots=True)
class Received:
    """The weights from which a round starts: the result of the round before."""

    run: str
    server_round: int
    weights: Mapping[str, Any]


def received_file(config: ClientConfig) -> Path:
    """The file of the client's last received model."""
    return Path(config.ledger).absolute().parent / FOLDER / f"{account_digest(config)}.npz"


def keep_received(config: ClientConfig, plan: RoundPlan, weights: Mapping[str, Any]) -> None:
    """Write the weights. If that fails, the client's log says so, and the round continues."""
    path = received_file(config)
    about = json.dumps({"run": plan.run, "server_round": plan.server_round})
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, **{_ABOUT: np.array(about)}, **weights)
    try:
        private_folder(path.parent)
        write_whole(path, lambda file: file.write(content.getvalue()), secret=True)
    except OSError as error:
        logger.warning("%s: the model that was received is not kept there: %s", path, error)


def read_received(path: Path) -> Received:
    """What `keep_received` has written; DataError if it is something else."""
    found = read_npz(path, lambda there: list(there))
    try:
        about = json.loads(str(found.pop(_ABOUT)))
        return Received(str(about["run"]), int(about["server_round"]), found)
    except (*DAMAGED, KeyError, TypeError):
        raise DataError(f"{path}: is damaged; the next round that is asked for replaces it.") from None
