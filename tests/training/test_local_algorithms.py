"""Each algorithm is its paper's update rule, in float64, over rounds of a small federation.

The papers' algorithms are written out here with NumPy, over one array of all numbers of a model. What they
take for a client's gradient is what its trainer was about to descend along: clipped and noised.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from trainers import plan_of, trainer_for

from fl_dp.config.run import RunConfig
from fl_dp.data.tensor_data import TensorData
from fl_dp.federation.server.combine import Aggregator
from fl_dp.federation.server.verify import RoundResult, Verdict
from fl_dp.federation.wire.arrays import digest_of, encode, load_arrays, shared_specs, state_arrays
from fl_dp.training.kept import go_on_from, state_of
from fl_dp.training.trainer import as_arrays, take_steps, trainable, update_of

RATE, PULL, STEPS, ROUNDS, CLIENTS, BATCH = 0.3, 0.7, 3, 4, 3, 10
Flat = np.ndarray[Any, np.dtype[np.float64]]


class InDouble(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.double()


class Federation:
    """Clients with data of their own, and the server's real parts. gradients: of each round and client, a row
    for each step: the means that were noised, as one array of all numbers.
    """

    def __init__(self, algorithm: str, *, private: bool, personal: str = "", pull: float = 0.0) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(InDouble(), nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)).double()
        self.config = RunConfig(
            clients=CLIENTS,
            min_clients=CLIENTS,
            fit_clients=CLIENTS,
            local_algorithm=f"{algorithm}:{pull}",
            personal=personal,
            evaluate="off",
            weights="uniform",
        )
        self.private, self.personal = private, personal
        self.data = [_data(seed) for seed in range(CLIENTS)]
        self.aggregating = Aggregator(self.config, shared_specs(self.model, personal))
        self.weights = encode(state_arrays(self.model))
        self.start = self.flat(self.weights)
        self.states = [b""] * CLIENTS
        self.gradients: list[list[Flat]] = []
        self.models: list[list[Flat]] = []  # of each round and client, after its steps
        self.globals: list[Flat] = []

    def flat(self, arrays: Mapping[str, Any]) -> Flat:
        values = [np.asarray(getattr(a, "numpy", lambda a=a: a)()).ravel() for a in arrays.values()]
        return np.concatenate(values)

    def round(self) -> None:
        updates, gradients, models = [], [], []
        for client in range(CLIENTS):
            update, seen = self._train(client, {name: one.numpy() for name, one in self.weights.items()})
            updates.append(update)
            gradients.append(seen)
            models.append(self.flat(as_arrays(trainable(self.model))))
        verdicts = {str(client): Verdict("trained", arrays=update) for client, update in enumerate(updates)}
        judged = RoundResult([(update, 1.0) for update in updates], verdicts=verdicts)
        self.weights = self.aggregating.aggregate(self.weights, judged)
        self.gradients.append(gradients)
        self.models.append(models)
        self.globals.append(self.flat(self.weights))

    def _train(self, client: int, weights: Mapping[str, Any]) -> tuple[Any, Flat]:
        load_arrays(self.model, weights)
        plan = plan_of(
            steps=STEPS,
            expected_batch_size=BATCH,
            learning_rate=RATE,
            private=self.private,
            noise_multiplier=1.0 if self.private else 0.0,
            max_grad_norm=0.5,
            local_algorithm=self.config.algorithm,
            pull=self.config.pull,
            personal=self.personal,
        )
        data, key = self.data[client], digest_of(weights).encode()[:31] + bytes([client])
        trainer = trainer_for(self.model, data, plan, key=key)
        seen = _spied(trainer, BATCH if self.private else 1)
        go_on_from(trainer, {name: torch.tensor(one) for name, one in weights.items()}, self.states[client])
        take_steps(trainer, data, STEPS, BATCH / len(data), 40)
        self.states[client] = state_of(trainer)
        update = update_of(trainer)
        assert update is not None
        return as_arrays(update), np.array(seen)


def _spied(trainer: Any, divisor: int) -> list[Flat]:
    seen: list[Flat] = []
    corrected = trainer.algorithm.corrected

    def look(sums: list[Tensor], given: float) -> Any:
        assert given == divisor
        seen.append(np.concatenate([one.numpy().ravel() for one in sums]) / divisor)
        return corrected(sums, given)

    trainer.algorithm.corrected = lambda sums, divisor: look(sums, divisor)
    return seen


def _data(seed: int) -> TensorData:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(40, 4, generator=generator) + seed
    return TensorData(x, torch.arange(40) % 2, ("a", "b"))


def federation(algorithm: str, private: bool, **settings: Any) -> Federation:
    made = Federation(algorithm, private=private, **settings)
    for _ in range(ROUNDS):
        made.round()
    assert len({one.tobytes() for one in made.globals}) == ROUNDS  # it moves
    return made


def same(one: Flat, other: Flat) -> None:
    np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("algorithm", "pull"), [("fedavg", 0.0), ("fedprox", PULL)])
@pytest.mark.parametrize("private", [True, False])
def test_fedavg_and_fedprox(private: bool, algorithm: str, pull: float) -> None:
    """McMahan et al. 2017, algorithm 1. Li et al. 2020, algorithm 2: steps on F_k(w) + mu/2 |w - w_t|^2."""
    seen = federation(algorithm, private, pull=pull)
    x = seen.start
    for gradients, end in zip(seen.gradients, seen.globals, strict=True):
        ends = []
        for g in gradients:
            w = x
            for step in g:
                w = w - RATE * (step + pull * (w - x))
            ends.append(w)
        x = np.mean(ends, axis=0)
        same(end, x)


@pytest.mark.parametrize("pull", [0.0, PULL])
@pytest.mark.parametrize("private", [True, False])
def test_mr_mtl(private: bool, pull: float) -> None:
    """Liu et al. 2022, algorithm A1: w_k <- w_k - rate (g + lambda (w_k - w_mean)), w_mean the last mean."""
    seen = federation("mr-mtl", private, pull=pull)
    mean, own = seen.start, [seen.start] * CLIENTS
    for gradients, end, models in zip(seen.gradients, seen.globals, seen.models, strict=True):
        for client, g in enumerate(gradients):
            for step in g:
                own[client] = own[client] - RATE * (step + pull * (own[client] - mean))
            same(models[client], own[client])
        mean = np.mean(own, axis=0)
        same(end, mean)


@pytest.mark.parametrize("private", [True, False])
def test_personal_heads(private: bool) -> None:
    """Arivazhagan et al. 2019 (arXiv 1912.00818), algorithm 1: the trunk is averaged, heads stay."""
    seen = federation("fedavg", private, personal="3.*")
    trunk = slice(0, 15)  # 4 x 3 weights and 3 biases, then the head
    x, own = seen.start, [seen.start] * CLIENTS
    for gradients, end, models in zip(seen.gradients, seen.globals, seen.models, strict=True):
        for client, g in enumerate(gradients):
            own[client] = np.concatenate([x[trunk], own[client][15:]]) - RATE * g.sum(0)
            same(models[client], own[client])
        x = np.concatenate([np.mean([one[trunk] for one in own], axis=0), seen.start[15:]])
        same(end, x)


@pytest.mark.parametrize("algorithm", ["fedprox", "mr-mtl"])
def test_what_is_personal_is_not_pulled_and_never_sent(algorithm: str) -> None:
    seen = federation(algorithm, True, personal="3.*", pull=PULL)
    head = [seen.start[15:]] * CLIENTS
    for gradients, end, models in zip(seen.gradients, seen.globals, seen.models, strict=True):
        for client, g in enumerate(gradients):
            head[client] = head[client] - RATE * g.sum(0)[15:]
            same(models[client][15:], head[client])
        same(end[15:], seen.start[15:])
    assert not [name for name in seen.aggregating.expected if "3." in name]
