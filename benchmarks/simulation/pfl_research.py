"""pfl-research's SimulatedBackend without privacy; runs in an environment that has `pfl[pytorch]`.

    PYTHONPATH=. PFL_PYTHON -m torch.distributed.run --standalone --nproc-per-node CORES
        -m benchmarks.simulation.pfl_research FEDERATION --data FILE --rounds N --out DIR

A process for each core is how it uses them best: 2 processes took 0.44 s a round, one with 2 threads 0.75 s.
"""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByDatapoints
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNTrainHyperParams
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel
from torch import Tensor, nn

from benchmarks.simulation.federation import FEDERATIONS, LEARNING_RATE, Federation
from benchmarks.simulation.rounds import RoundClock
from fl_dp.form import Form
from fl_dp.models.build import build_model


class WithLoss(nn.Module):
    """A model with the two methods that pfl asks for."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self._model = model

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self._model(inputs)
        return logits

    def loss(self, inputs: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(self(inputs), labels)

    @torch.no_grad()
    def metrics(self, inputs: Tensor, labels: Tensor) -> dict[str, Weighted]:
        return {"loss": Weighted(self.loss(inputs, labels).item() * len(labels), len(labels))}


class Clock(TrainingProcessCallback):
    """Tells of the rounds; one process does it for all."""

    def __init__(self, out: Path) -> None:
        self._clock = RoundClock(out)

    def on_train_begin(self, *, model: Any) -> Metrics:
        self._clock.start()
        return Metrics()

    def after_central_iteration(
        self, aggregate_metrics: Metrics, model: Any, *, central_iteration: int
    ) -> tuple[bool, Metrics]:
        self._clock.tick()
        return False, Metrics()


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    federation = FEDERATIONS[options.federation]
    users = _users(options.data, federation)
    model = WithLoss(build_model(federation.model, Form(federation.input_shape, federation.classes), seed=0))
    FederatedAveraging().run(
        algorithm_params=NNAlgorithmParams(
            central_num_iterations=options.rounds,
            evaluation_frequency=options.rounds + 1,  # in the first round only, which no figure counts
            train_cohort_size=federation.per_round,
            val_cohort_size=None,
        ),
        backend=SimulatedBackend(users, users, postprocessors=[WeightByDatapoints()]),
        model=PyTorchModel(model, torch.optim.SGD, torch.optim.SGD(model.parameters(), lr=1.0)),
        model_train_params=NNTrainHyperParams(
            local_num_epochs=1, local_learning_rate=LEARNING_RATE, local_batch_size=federation.batch
        ),
        callbacks=[Clock(options.out)] if os.environ.get("RANK", "0") == "0" else [],
    )


def _users(file: Path, federation: Federation) -> FederatedDataset:
    """Equal parts of the records of `file`, drawn uniformly; in turn, so that no round has a user twice."""
    with np.load(file) as arrays:
        x, y = torch.from_numpy(arrays["x"]), torch.from_numpy(arrays["y"])
    size = len(y) // federation.clients
    parts = torch.randperm(len(y))[: size * federation.clients].split(size)
    inputs = x.float().div_(127.5).sub_(1.0)
    data = {user: (inputs[part], y[part]) for user, part in enumerate(parts)}
    return FederatedDataset.from_slices(data, get_user_sampler("minimize_reuse", range(federation.clients)))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulation.pfl_research")
    parser.add_argument("federation", choices=FEDERATIONS)
    parser.add_argument("--data", type=Path, required=True, help=".npz: x uint8 (n, C, H, W), y int64 (n,)")
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    return parser


if __name__ == "__main__":
    main()
