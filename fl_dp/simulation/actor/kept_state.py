"""An optimizer's state as bytes, to and from the processes that train."""

import hashlib
import io

import torch

from fl_dp.records import KEEP
from fl_dp.training.optimizers import TorchDescent
from fl_dp.training.trainer import Trainer


def state_of(trainer: Trainer, kept: str) -> bytes:
    """The state of the trainer's optimizer; empty where none is kept. kept: a plan's `optimizer_state`."""
    if kept != KEEP or not isinstance(trainer.descent, TorchDescent):
        return b""
    content = io.BytesIO()
    torch.save(trainer.descent.state(), content)
    return content.getvalue()


def go_on_from(trainer: Trainer, state: bytes) -> None:
    """Let the trainer's optimizer go on from what `state_of` gave; empty: it starts anew."""
    if state and isinstance(trainer.descent, TorchDescent):
        trainer.descent.load(torch.load(io.BytesIO(state), map_location="cpu", weights_only=True))


def digest_of_state(state: bytes) -> str:
    """By which a round's key and its result know the state; empty for none."""
    return hashlib.sha256(state).hexdigest() if state else ""
