"""An optimizer's own state between a client's rounds, on its disk, for `optimizer-state = "keep"`.

It follows from noised gradients alone, and never leaves. It decides the next update: it is on the disk before
the next payment, and its digest is an input of that payment's key.
"""

import hashlib
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from fl_dp.config.client import ClientConfig
from fl_dp.durable_files import write_whole
from fl_dp.federation.client.registration import dataset_name
from fl_dp.records import RoundPlan
from fl_dp.training.optimizers import TorchDescent

FOLDER = "optimizer"  # beside the ledger


@dataclass(frozen=True, slots=True)
class KeptState:
    """The state that a round starts from. terms: what it belongs to; digest: empty where it starts anew."""

    path: Path
    terms: str
    digest: str

    @classmethod
    def load(cls, config: ClientConfig, plan: RoundPlan, descent: TorchDescent, shapes: str) -> "KeptState":
        """Let `descent` go on from the run's last round before this one; anew where there is none.

        shapes: of the parameters. A state of another run, optimizer or model is not used.
        """
        name = hashlib.sha256(dataset_name(config).encode()).hexdigest()[:16]
        path = Path(config.ledger).absolute().parent / FOLDER / f"{name}.pt"
        terms = "\0".join((plan.run, plan.optimizer, plan.optimizer_settings, plan.model, plan.task, shapes))
        if path.exists():
            content = path.read_bytes()
            kept: dict[str, Any] = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
            if kept["terms"] == terms and kept["round"] < plan.server_round:
                descent.load(kept["state"])
                return cls(path, terms, hashlib.sha256(content).hexdigest())
        return cls(path, terms, "")

    def save(self, server_round: int, descent: TorchDescent) -> None:
        """Keep the state after the round; it is on the disk when this returns."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        kept = {"terms": self.terms, "round": server_round, "state": descent.state()}
        write_whole(self.path, lambda file: torch.save(kept, file), secret=True)
