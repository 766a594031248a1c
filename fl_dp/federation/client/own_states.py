"""What a client with its own process keeps between rounds, beside its ledger, separately for each run."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fl_dp.config.client import ClientConfig
from fl_dp.errors import ConfigError
from fl_dp.federation.client.kept_states import FOLDER, KeptStates
from fl_dp.federation.client.registration import account_digest
from fl_dp.records import RoundPlan

if TYPE_CHECKING:
    from torch import Tensor

    from fl_dp.training.trainer import Trainer

# Files of earlier runs stay only for MODEL: a model of the site's own is what a run was for.
MODEL, STATE = "model", "state"
MOST_STATES = 8  # files; two for each run, so that runs may alternate


def states_folder(config: ClientConfig) -> Path:
    """The folder of the states for the client's data, by its account in the ledger."""
    return Path(config.ledger).absolute().parent / FOLDER / account_digest(config)


@dataclass(frozen=True, slots=True)
class OwnModel:
    """A site's own parameters, by name, after its last round of a run; nobody else may see them."""

    run: str
    server_round: int
    parameters: Mapping[str, "Tensor"]

    def on(self, weights: Mapping[str, Any]) -> dict[str, Any] | None:
        """The weights with these parameters in place; None if they belong to another model."""
        for name, one in self.parameters.items():
            if name not in weights or tuple(weights[name].shape) != tuple(one.shape):
                return None
        return {**weights, **self.parameters}


def own_model_file(config: ClientConfig) -> Path | None:
    """The file of the newest own model for the client's data; None if there is none."""
    return max(states_folder(config).glob(f"{MODEL}_*"), key=written_at, default=None)


def written_at(file: Path) -> int:
    """The modification time in nanoseconds; 0 for a file that has just been replaced by a newer one."""
    try:
        return file.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def read_own_model(file: Path) -> OwnModel:
    """Read the file that `own_model_file` returns; ConfigError if it is damaged."""
    from fl_dp.training.kept import OWN, RUN, read_state

    try:
        state = read_state(file.read_bytes())
        return OwnModel(state[RUN], int(file.stem.rpartition("-")[2]), state[OWN])
    except (KeyError, ValueError, OSError):  # ConfigError is a ValueError
        raise ConfigError(f"{file}: is no model of this site's own, or is damaged; delete it.") from None


class OwnStates:
    """The states of the run of the trainer's plan. States of another run, algorithm or model are not used.

    A private run does not use states from training without privacy.
    """

    def __init__(self, config: ClientConfig, trainer: "Trainer") -> None:
        self._folder = states_folder(config)
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
            plan.origin or plan.run, plan.optimizer, plan.optimizer_settings, plan.optimizer_state,
            plan.model, plan.task, plan.trained, plan.local_algorithm, plan.personal, plan.unit,
            str(plan.private), shapes,
        )
    )  # fmt: skip
