"""What a client keeps between its rounds: the optimizer's state, and the state of its local algorithm.

All of it follows from noised sums and received weights alone. It influences the next update, so it is written
to disk before the next payment, and its digest is an input of that payment's key.
"""

import hashlib
import io
from typing import Any

import torch

from fl_dp.errors import ConfigError
from fl_dp.models.weights_file import load_saved
from fl_dp.records import KEEP
from fl_dp.training.local_algorithm import Arrays
from fl_dp.training.optimizers import TorchDescent
from fl_dp.training.trainer import Trainer

_NAME = (
    "what this client has kept between rounds (the folder 'kept' beside its ledger; delete it to start over)"
)
_OPTIMIZER, OWN, RUN = "optimizer", "own", "run"


def state_of(trainer: Trainer) -> bytes:
    """What the client's next round continues from, serialised; empty if there is nothing."""
    kept: dict[str, Any] = {}
    if trainer.plan.optimizer_state == KEEP and isinstance(trainer.descent, TorchDescent):
        kept[_OPTIMIZER] = trainer.descent.state()
    if own := trainer.algorithm.kept():
        kept[OWN] = {name: tensor.cpu() for name, tensor in own.items()}
    if not kept:
        return b""
    content = io.BytesIO()
    plan = trainer.plan
    torch.save(kept | {RUN: plan.origin or plan.run}, content)
    return content.getvalue()


def go_on_from(trainer: Trainer, start: Arrays, state: bytes) -> None:
    """Let the trainer's round begin, with the model at the global weights.

    start: the received arrays, by name. state: what `state_of` gave after the client's last round; empty if
    there was none.
    """
    kept = read_state(state)
    if _OPTIMIZER in kept and isinstance(trainer.descent, TorchDescent):
        trainer.descent.load(kept[_OPTIMIZER])
    trainer.algorithm.begin(start, kept.get(OWN, {}))


def read_state(state: bytes) -> dict[str, Any]:
    """The parts of a state by name, on the CPU. It is read as data, never as code. ConfigError if damaged."""
    if not state:
        return {}
    found = load_saved(state, _NAME)
    own = found.get(OWN, {}) if isinstance(found, dict) else None
    sound = (
        isinstance(own, dict)
        and isinstance(found.get(_OPTIMIZER, {}), dict)
        and all(isinstance(one, torch.Tensor) for one in own.values())
        and isinstance(found.get(RUN, ""), str)
    )
    if not sound:
        raise ConfigError(f"{_NAME}: is damaged.")
    return {**found}


def digest_of_state(state: bytes) -> str:
    """The digest by which a round's key and its result identify the state; empty for no state."""
    return hashlib.sha256(state).hexdigest() if state else ""
