"""Stores what clients keep between rounds (`training/kept.py`) on their disk, beside their ledger.

A round's states are on the disk before any of its answers leaves. Older states stay until the round's result
is in the run's state, so that a repeated round starts from the same state.
"""

import hashlib
import sys
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from fl_dp.config.client import ClientConfig
from fl_dp.durable_files import private_folder, write_whole
from fl_dp.errors import ConfigError
from fl_dp.federation.client.registration import account_digest
from fl_dp.records import RoundPlan
from fl_dp.training.kept import OWN, RUN, read_state
from fl_dp.training.trainer import Trainer

FOLDER = "kept"
_ENDING = ".pt"
# Files of earlier runs stay only for MODEL: a model of the site's own is what a run was for.
MODEL, STATE = "model", "state"
MOST_STATES = 8  # files; two for each run, so that runs may alternate


def kept_by(config: ClientConfig, ending: str = "") -> Path:
    """What is kept for the client's data: a file, or the folder of states, named by their ledger account."""
    return Path(config.ledger).absolute().parent / FOLDER / f"{account_digest(config)}{ending}"


class KeptStates:
    """A file for each client and round, `CLIENT-ROUND.pt` in `folder`, which is created when needed.

    A client is a name without a hyphen, unique in the folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._rounds = defaultdict[str, set[int]](set)  # by client, the rounds after which a state is kept
        for file in folder.glob(f"*-*{_ENDING}"):
            client, _, server_round = file.stem.partition("-")
            if server_round.isdecimal():  # otherwise it is not ours
                self._rounds[client].add(int(server_round))

    def before(self, client: str, server_round: int) -> bytes:
        """The state after the client's last round before that one; empty if it starts anew."""
        earlier = [one for one in self._rounds[client] if one < server_round]
        return self._file(client, max(earlier)).read_bytes() if earlier else b""

    def last(self, client: str) -> bytes:
        """The client's last state; empty if it has none."""
        return self.before(client, sys.maxsize)

    def save(self, server_round: int, states: Mapping[str, bytes]) -> None:
        """Save the states after the round, by client; they are on the disk when this returns."""
        if states:
            private_folder(self._folder)
        for client, state in states.items():
            file = self._file(client, server_round)
            write_whole(file, lambda opened, state=state: opened.write(state), secret=True)  # type: ignore[misc]
            self._rounds[client].add(server_round)

    def settle(self, up_to_round: int, client: str = "") -> None:
        """No round up to that one will be repeated: keep only the last state of each client, or of one."""
        for one in [client] if client else list(self._rounds):
            rounds = self._rounds[one]
            for old in sorted(kept for kept in rounds if kept <= up_to_round)[:-1]:
                self._file(one, old).unlink(missing_ok=True)
                rounds.remove(old)

    def _file(self, client: str, server_round: int) -> Path:
        return self._folder / f"{client}-{server_round}{_ENDING}"


@dataclass(frozen=True, slots=True)
class OwnModel:
    """A site's own parameters, by name, after its last round of a run; nobody else may see them."""

    run: str
    server_round: int
    parameters: Mapping[str, Tensor]

    def on(self, weights: Mapping[str, Any]) -> dict[str, Any] | None:
        """The weights with these parameters in place; None if they belong to another model."""
        for name, one in self.parameters.items():
            if name not in weights or tuple(weights[name].shape) != tuple(one.shape):
                return None
        return {**weights, **self.parameters}


def own_model_file(config: ClientConfig) -> Path | None:
    """The file of the newest own model for the client's data; None if there is none."""
    return max(kept_by(config).glob(f"{MODEL}_*"), key=written_at, default=None)


def written_at(file: Path) -> int:
    """The modification time in nanoseconds; 0 for a file that has just been replaced by a newer one."""
    try:
        return file.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def read_own_model(file: Path) -> OwnModel:
    """Read the file that `own_model_file` returns; ConfigError if it is damaged."""
    try:
        state = read_state(file.read_bytes())
        return OwnModel(state[RUN], int(file.stem.rpartition("-")[2]), state[OWN])
    except (KeyError, ValueError, OSError):  # ConfigError is a ValueError
        raise ConfigError(f"{file}: is not a model of this site's own, or is damaged; delete it.") from None


class OwnStates:
    """The states of the run in the trainer's plan. States of another run, algorithm or model are not used.

    A private run does not use states from training without privacy.
    """

    def __init__(self, config: ClientConfig, trainer: Trainer) -> None:
        self._folder = kept_by(config)
        self._files = KeptStates(self._folder)
        shapes = {name: tuple(one.shape) for name, one in trainer.algorithm.parameters.items()}
        terms = hashlib.sha256(_terms(trainer.plan, str(shapes)).encode()).hexdigest()[:16]
        self._name = f"{MODEL if trainer.algorithm.own else STATE}_{terms}"

    def before(self, server_round: int) -> bytes:
        """The state after the run's last round before that one; empty if it starts anew."""
        return self._files.before(self._name, server_round)

    def save(self, server_round: int, state: bytes) -> None:
        """Save the state after the round; it is on the disk when this returns. Empty: there is none.

        A server that has asked for this round goes back one round at most; older states are deleted.
        """
        if not state:
            return
        self._files.save(server_round, {self._name: state})
        self._files.settle(server_round - 1, self._name)
        for file in sorted(self._folder.glob(f"{STATE}_*"), key=written_at)[:-MOST_STATES]:
            file.unlink(missing_ok=True)  # another round may delete it at the same time


def _terms(plan: RoundPlan, shapes: str) -> str:
    return "\0".join(
        (
            plan.origin or plan.run,
            plan.optimizer,
            plan.optimizer_settings,
            plan.optimizer_state,
            plan.model,
            plan.task,
            plan.trained,
            plan.local_algorithm,
            plan.personal,
            plan.unit,
            str(plan.private),
            shapes,
        )
    )
