"""Noise that ends at 5.8 deviations: what lies beyond is seen only if Alice's record is there.

The server knows all records but Alice's, and weights under which her gradient has length C in a known
direction. PyTorch's float32 normal on a CPU uses uniforms of 24 bits: it ends at sqrt(-2 log 2^-24) = 5.768.
Of a million numbers some come so near that with C on top they pass the end. One look tells, and no delta
covers it.

Here the streams are given the bits that lead farthest: a billion draws hold two beyond 6 deviations.
"""

import math

import numpy as np
import pytest
import torch
from torch import nn
from trainers import trainer_for

from fl_dp.data.tensor_data import TensorData
from fl_dp.engine.clipping import ClippedSum
from fl_dp.engine.noise.discrete_gaussian import BASE_WIDTH, FACTOR, width
from fl_dp.engine.noise.gaussian import add_gaussian_noise
from fl_dp.engine.noise.grid import noise_grid
from fl_dp.engine.noise.randomness import ByteStream, Randomness
from fl_dp.engine.sum_error import sum_error
from fl_dp.records import LocalUpdate, RoundPlan
from fl_dp.simulation.work import ClientWork, Round
from fl_dp.training import step
from fl_dp.training.private import PrivateTrainer

MULTIPLIER, NUMBERS = 2.0, 16
END = math.sqrt(2 * 24 * math.log(2))  # of torch's normal, in deviations
PLAN = RoundPlan("run", 1, "linear", 1, 10, 0.5, 0.0, MULTIPLIER, 1.0)


def _uniform(deviations: float) -> int:
    """The 128 bits that the base table turns into that many of its widths: the normal distribution there."""
    share = 0.5 * math.erfc(abs(deviations) / math.sqrt(2))
    return int(math.ldexp(share, 128)) if deviations < 0 else 2**128 - 1 - int(math.ldexp(share, 128))


def _feed(monkeypatch: pytest.MonkeyPatch, uniform: int) -> None:
    """Let all streams hand out the parts of one uniform number of 128 bits, as they are asked for."""

    def words(self, count, dtype):
        part = {0: uniform >> 112, 1: uniform >> 48 & (2**64 - 1), 2: uniform & (2**64 - 1)}[self.number]
        return np.full(count, part, dtype)

    def remember(self, key, number, block=0):
        self.number = number

    monkeypatch.setattr(ByteStream, "__init__", remember)
    monkeypatch.setattr(ByteStream, "words", words)


def _noise(generator) -> torch.Tensor:
    """In deviations."""
    nothing = ClippedSum({"w": torch.zeros(NUMBERS)}, 1.0, torch.zeros(0))
    grid = noise_grid(1.0, MULTIPLIER, NUMBERS, sum_error(nothing.most))
    noisy = add_gaussian_noise(nothing, noise_multiplier=MULTIPLIER, generator=generator)["w"]
    return noisy.double() / grid.deviation


@pytest.mark.parametrize("deviations", [-12, -8, -6, 6, 8, 12])
def test_noise_far_beyond_the_end_of_torchs_comes_out_on_both_sides(deviations, monkeypatch):
    _feed(monkeypatch, _uniform(deviations))
    # all levels get the same base number: the factors add up to a little more than they do in squares
    together = sum(FACTOR**level for level in range(3)) * BASE_WIDTH / width(3)
    for generator in ("secure", Randomness(bytes(32))):
        np.testing.assert_allclose(_noise(generator), deviations * together, rtol=5e-3)
    assert abs(deviations) > END


@pytest.mark.parametrize(("uniform", "sign"), [(0, -1), (2**128 - 1, 1)])
def test_bits_that_are_all_alike_lead_beyond_13_deviations(uniform, sign, monkeypatch):
    _feed(monkeypatch, uniform)
    assert bool((sign * _noise(Randomness(bytes(32))) > 13).all())


def _without_torchs_normal(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*args, **kwargs):
        raise AssertionError("noise from torch's normal")

    monkeypatch.setattr(torch.Tensor, "normal_", refused)
    for name in ("randn", "normal", "randn_like"):
        monkeypatch.setattr(torch, name, refused)


def _changed(before, after) -> bool:
    return all(not np.array_equal(before[name], after[name]) for name in after)


def test_a_step_takes_this_noise_and_not_torchs(monkeypatch):
    model = nn.Linear(4, 3)
    data = TensorData(torch.randn(20, 4), torch.arange(20) % 3, ("a", "b", "c"))
    trainer = trainer_for(model, data, PLAN)
    start = model.weight.detach().clone()
    trainer.declare_shapes()  # a pass of random numbers that are no noise
    _without_torchs_normal(monkeypatch)
    _feed(monkeypatch, 0)  # the noise is the lowest there is
    monkeypatch.setattr(step, "draw", lambda *_: torch.zeros(0, dtype=torch.int64))
    trainer.step(data, 0.5, 8)
    moved = (model.weight.detach() - start) / -(PLAN.learning_rate / PLAN.expected_batch_size)
    assert bool((moved < -13 * MULTIPLIER).all())


def test_a_deployed_and_a_simulated_client_take_it_too(real_client, federation, monkeypatch):
    client = real_client()
    steps = []
    taken = PrivateTrainer.step

    def step(self, *args):
        self.declare_shapes()
        with monkeypatch.context() as inside:
            _without_torchs_normal(inside)
            taken(self, *args)
        steps.append(1)

    monkeypatch.setattr(PrivateTrainer, "step", step)
    update = client.train(PLAN)
    assert isinstance(update, LocalUpdate)
    assert len(steps) == 1
    item = ClientWork("m", "0", 0, federation.plan(), 2, 0.2, None, key=bytes(32))
    kernels = {"1.weight": "ghost", "1.bias": "instantiate"}
    (done,) = federation.actor().train(1, [item], 64, Round("r", federation.start, kernels)).done
    assert not done.problem
    assert len(steps) == 3
    assert _changed(federation.start, done.arrays)
