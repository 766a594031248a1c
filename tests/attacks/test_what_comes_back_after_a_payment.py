"""A round that ends in another way if and only if a chosen record is there.

The server knows all records but Alice's. It sends weights or a learning rate under which her record alone
leads to a NaN, an overflow, an operator that refuses, or has a label that nobody else has. If that ends the
round, or changes the answer's kind or size, it tells of her with certainty, and no noise covers it.

After the payment what is answered has the same fields and sizes. A record may decide how long a step takes,
and what is in the client's own log.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from flwr.app import RecordDict
from torch import nn

from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.audit.one_run import GivenTask
from fl_dp.config.task import TaskSettings
from fl_dp.data.tensor_data import TensorData
from fl_dp.federation.client import own_training
from fl_dp.federation.wire.arrays import encode, state_arrays
from fl_dp.federation.wire.messages import plan_to_content
from fl_dp.records import RoundPlan
from fl_dp.simulation.actor.shared_data import SharedData, SharedParts
from fl_dp.simulation.actor.training_actor import TrainingActor
from fl_dp.simulation.clients import SimulatedClients
from fl_dp.simulation.work import Round

PLAN = RoundPlan("run", 1, "linear", 2, 16, 0.5, 0.0, 20.0, 1.0)
RECORDS, HERS = 40, 7
LARGE = np.float32(3e38)


class Refuses(nn.Module):
    """What a model may do to a record that it cannot take: raise, each in its own way."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.linear, self._how = nn.Linear(4, 3), how

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        strange = bool((x.detach().abs() > 1e30).any())
        if strange and self._how == "an error":
            raise ValueError("a record that is too large")
        if strange and self._how == "an index":
            torch.zeros(3)[torch.tensor([5])]
        if strange and self._how == "memory of its own":
            raise MemoryError
        logits = self.linear(x)
        return logits * (x.detach() / x.detach()).mean(1, keepdim=True) if self._how == "nan" else logits


def _records(alice) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(0).normal(size=(RECORDS, 4)).astype(np.float32)
    y = np.arange(RECORDS) % 2  # nobody but Alice may have label 2
    if alice is None:
        return np.delete(x, HERS, 0), np.delete(y, HERS)
    x[HERS], y[HERS] = alice
    return x, y


def _shape(content: RecordDict) -> list:
    """All that an answer shows beside the values of its numbers."""
    shown = []
    for name, record in content.items():
        for key, value in record.items():
            size = (value.shape, value.dtype, len(value.data)) if hasattr(value, "data") else type(value)
            shown.append((name, key, size))
    return sorted(shown, key=str)


ALICES = {
    "all zeros": (np.zeros(4), 0),
    "a label at the edge": (np.ones(4), 2),
    "the largest numbers": (np.array([LARGE, -LARGE, LARGE, -LARGE]), 2),
    "overflows in squares": (np.full(4, 1e20), 0),
    "below the smallest normal number": (np.full(4, 1e-44), 2),
}
WEIGHTS = {
    "as they begin": lambda w: w,
    "as large as they may be": lambda w: {n: np.copysign(a.dtype.type(1e6), a) for n, a in w.items()},
    "zero, and sure of a class": lambda w: {
        n: np.array([60.0, 0, 0], a.dtype) if a.ndim == 1 else 0 * a for n, a in w.items()
    },
}


@pytest.mark.parametrize("weights", WEIGHTS)
def test_a_deployed_client_answers_alike_with_and_without_her(weights, real_client):
    shapes = []
    for number, alice in enumerate([None, *ALICES.values()]):
        client = real_client(f"client {number}", **{"public-size": RECORDS})
        client.give(*_records(alice))
        arrays = WEIGHTS[weights](state_arrays(client.model))
        for plan in (PLAN, replace(PLAN, server_round=2, learning_rate=1e38, momentum=0.9)):
            content = client.ask("train", plan_to_content(plan, encode(arrays)))
            assert "refusal" not in content, content
            shapes.append((plan.server_round, _shape(content)))
    assert len({str(shape) for shape in shapes}) == 1 + 1


@pytest.mark.parametrize("how", ["an error", "an index", "memory of its own", "nan"])
def test_nor_does_it_show_that_the_model_cannot_take_her_record(how, real_client, monkeypatch):
    monkeypatch.setattr(own_training, "new_model", lambda task: _made(how))
    shapes = []
    for number, alice in enumerate([None, ALICES["the largest numbers"], ALICES["all zeros"]]):
        client = real_client(f"client {number}", **{"public-size": RECORDS})
        client.give(*_records(alice))
        content = client.ask("train", plan_to_content(PLAN, encode(state_arrays(_made(how)))))
        shapes.append(_shape(content))
    assert shapes[0] == shapes[1] == shapes[2]
    assert any("linear.weight" in str(entry) for entry in shapes[0])  # it is an update


def _made(how: str) -> Refuses:
    torch.manual_seed(0)
    return Refuses(how)


def _simulated(folder, federation, how, summed, alice) -> list:
    """What four clients' answers and their sum show; Alice is a record of the first one, or not there."""
    x, y = (torch.from_numpy(array) for array in _records(alice))
    shared = SharedData.of(TensorData(x, y, tuple("abc")), np.array_split(np.arange(len(x)), 4))
    config = replace(federation.config(), num_partitions=4, public_size=10)
    start, plan = state_arrays(_made(how)), federation.plan()
    with Ledger.open(folder / "ledger.sqlite") as ledger:
        clients = SimulatedClients(config, SharedParts(shared), ledger)
        asked = {k: (f"m{k}", plan_to_content(plan, encode(start))) for k in range(4)}
        paid, refused = clients.pay(clients.read(asked)[0], "w")
        assert not refused
        items = [replace(one, weight=1.0 if summed else None) for one in paid]
        actor = TrainingActor(shared, federation.settings(), GivenTask(_made(how), TaskSettings()))
        kernels = {"linear.weight": "ghost", "linear.bias": "instantiate"}
        chunk = actor.train(1, items, 16, Round("r", start, kernels))
        done, total = chunk.done, chunk.sum
        assert not any(one.problem or one.log for one in done)
        contents = clients.answer(items, {one.message: one for one in done})
    assert all(np.isfinite(array).all() for array in total.values())
    return [*map(_shape, contents.values()), {name: array.shape for name, array in total.items()}]


@pytest.mark.parametrize("how", ["an error", "nan", "nothing"])
@pytest.mark.parametrize("summed", [False, True])
def test_a_simulated_client_answers_alike_with_and_without_her(how, summed, federation, tmp_path):
    shown = []
    for number, alice in enumerate([None, *ALICES.values()]):
        (tmp_path / str(number)).mkdir()
        shown.append(_simulated(tmp_path / str(number), federation, how, summed, alice))
    assert all(one == shown[0] for one in shown)


def test_weights_stay_finite_whatever_the_learning_rate(real_client):
    """Else an update that overflows would be a failure, which noise decides, and her gradient with it."""
    client = real_client()
    update = client.train(replace(PLAN, learning_rate=1e38, momentum=0.9))
    assert all(np.isfinite(array).all() for array in update.arrays.values())
