"""Mislabelled records: wrong labels, the rest as it was, and scores along their gradients."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fl_dp.audit.mislabelled import MislabelledRecords
from fl_dp.data.tensor_data import TensorData
from fl_dp.errors import ConfigError
from fl_dp.training.trainer import as_arrays, trainable


def _data(count, seed):
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 3, (count,), generator=generator)
    return TensorData(torch.randn(count, 6, generator=generator), y, ("a", "b", "c"))


@pytest.fixture
def canaries():
    torch.manual_seed(0)
    return MislabelledRecords(nn.Linear(6, 3), _data(10, 1), _data(40, 2))


def test_every_canary_has_a_wrong_label_and_ordinary_records_stay(canaries):
    spare, ordinary = _data(40, 2), _data(10, 1)
    data = canaries.data(torch.ones(40, dtype=torch.bool))
    assert torch.equal(data.x, torch.cat([ordinary.x, spare.x]))
    assert torch.equal(data.y[:10], ordinary.y)
    assert (data.y[10:] != spare.y).all()
    assert set(data.y[10:].tolist()) == {0, 1, 2}
    assert canaries.public_size == 50


def test_canaries_that_are_out_are_not_in_the_data(canaries):
    included = torch.arange(40) % 3 == 0
    assert torch.equal(canaries.data(included).x[10:], _data(40, 2).x[included])


def test_a_step_along_a_canary_s_gradient_scores_its_length(canaries):
    before = as_arrays(trainable(canaries.model))
    x, y = (
        part[10 + 7 : 10 + 8]
        for part in canaries.data(torch.ones(40, dtype=torch.bool)).batch(torch.arange(50))
    )
    loss = F.cross_entropy(canaries.model(x), y)
    grads = torch.autograd.grad(loss, list(canaries.model.parameters()))
    length = torch.cat([grad.flatten() for grad in grads]).norm()
    after = {
        name: before[name] - 0.25 * (grad / length).numpy() for name, grad in zip(before, grads, strict=True)
    }
    scores = canaries.scores(before, after)
    assert scores[7] == pytest.approx(0.25, rel=1e-5)
    assert np.all(np.abs(scores) <= 0.25 + 1e-6)


def test_one_class_has_no_wrong_label():
    one = TensorData(torch.zeros(3, 2), torch.zeros(3, dtype=torch.int64), ("only",))
    with pytest.raises(ConfigError, match="two classes"):
        MislabelledRecords(nn.Linear(2, 1), one, one)
