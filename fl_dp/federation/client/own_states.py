"""What a client with a process of its own keeps between rounds: beside its ledger, for each run apart."""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from fl_dp.config.client import ClientConfig
from fl_dp.federation.client.kept_states import FOLDER, KeptStates
from fl_dp.federation.client.registration import dataset_name
from fl_dp.records import RoundPlan

if TYPE_CHECKING:
    from fl_dp.training.trainer import Trainer

# Of these alone files of earlier runs stay: a model of the site's own is what a run was for.
MODEL, STATE = "model", "state"


def states_folder(config: ClientConfig) -> Path:
    """Of the client's data: two names of one data set share it, as they share an account."""
    name = hashlib.sha256(dataset_name(config).encode()).hexdigest()[:16]
    return Path(config.ledger).absolute().parent / FOLDER / name


class OwnStates:
    """Of the run that the trainer's plan is of. A state of another run, algorithm or model is not used."""

    def __init__(self, config: ClientConfig, trainer: "Trainer") -> None:
        self._folder = states_folder(config)
        self._files = KeptStates(self._folder)
        shapes = {name: tuple(one.shape) for name, one in trainer.algorithm.parameters.items()}
        terms = hashlib.sha256(_terms(trainer.plan, str(shapes)).encode()).hexdigest()[:16]
        self._name = f"{MODEL if trainer.algorithm.own else STATE}_{terms}"

    def before(self, server_round: int) -> bytes:
        """The state after the run's last round before that one; empty where it starts anew."""
        return self._files.before(self._name, server_round)

    def save(self, server_round: int, state: bytes) -> None:
        """Keep the state after the round; it is on the disk when this returns. Empty: there is none.

        The server has asked for this round, so it will never go back behind the one before.
        """
        if not state:
            return
        self._files.save(server_round, {self._name: state})
        self._files.settle(server_round - 1, self._name)
        for file in self._folder.glob(f"{STATE}_*"):
            if not file.name.startswith(f"{self._name}-"):
                file.unlink()


def _terms(plan: RoundPlan, shapes: str) -> str:
    return "\0".join(
        (
            plan.origin or plan.run, plan.optimizer, plan.optimizer_settings, plan.optimizer_state,
            plan.model, plan.task, plan.trained, plan.local_algorithm, plan.personal, plan.unit, shapes,
        )
    )  # fmt: skip
