"""Hostile weights: known records have no gradient at all, canaries are at right angles or nearly so."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fl_dp.audit.hostile_weights import craft
from fl_dp.data.tensor_data import TensorData
from fl_dp.errors import ConfigError
from fl_dp.form import Form
from fl_dp.models.build import build_model

CLASSES = tuple("0123456789")


def _known(shape, count=60):
    generator = torch.Generator().manual_seed(1)
    images = torch.randint(0, 256, (count, *shape), generator=generator).to(torch.uint8)
    images[:, 0, 0, 0] = 0  # the corner is dark, as in digits
    return TensorData(images, torch.randint(0, 10, (count,), generator=generator), CLASSES)


def _crafted(name, shape, count):
    model = build_model(name, Form(shape, 10), seed=0)
    return model, craft(model, name, _known(shape), count, torch.Generator().manual_seed(0))


def _gradients(model, data):
    x, y = data.batch(torch.arange(len(data)))
    rows = []
    for i in range(len(data)):
        loss = F.cross_entropy(model(x[i : i + 1]), y[i : i + 1])
        rows.append(torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()))]))
    return torch.stack(rows).double()


def _units(model, data):
    gradients = _gradients(model, data)
    return gradients / gradients.norm(dim=1, keepdim=True)


@pytest.mark.parametrize(("name", "shape"), [("linear", (1, 8, 8)), ("tanh-cnn", (1, 28, 28))])
def test_known_records_have_no_gradient_and_canaries_a_long_one(name, shape):
    model, crafted = _crafted(name, shape, 40)
    assert len(crafted.known) > 0
    assert _gradients(model, crafted.known).abs().max() == 0.0
    assert _gradients(model, crafted.canaries).norm(dim=1).min() > 1.0


def test_patterns_are_at_right_angles_but_for_the_bias_and_fill_five_pairs_of_classes():
    model, crafted = _crafted("linear", (1, 8, 8), 1000)
    assert len(crafted.canaries) == 5 * 64
    units = _units(model, crafted.canaries)
    gram = units @ units.T
    same_pair = torch.arange(320)[:, None] // 64 == torch.arange(320)[None] // 64
    assert gram[~same_pair].abs().max() == 0.0
    assert (gram - torch.eye(320)).abs().max() < 1 / (0.5**2 * 64)  # the bias, beside the shallowest pattern
    assert torch.linalg.inv(gram).diagonal().max() < 1.07


def test_centred_biases_keep_random_pictures_apart():
    model, crafted = _crafted("tanh-cnn", (1, 28, 28), 60)
    labels = crafted.canaries.y
    units, plain = (
        _units(one, crafted.canaries)
        for one in (model, build_model("tanh-cnn", Form((1, 28, 28), 10), seed=0))
    )
    gram = units @ units.T
    assert gram[labels[:, None] != labels[None]].abs().max() < 0.06  # what comes back is at right angles
    assert torch.linalg.inv(gram).diagonal().median() < 1.1
    assert torch.linalg.inv(plain @ plain.T).diagonal().median() > 2.0


def test_features_are_taken_as_they_are():
    model = build_model("linear", Form((5,), 2), seed=0)
    known = TensorData(torch.full((3, 5), -1.0), torch.tensor([0, 1, 1]), ("a", "b"))
    crafted = craft(model, "linear", known, 10, torch.Generator())
    assert crafted.canaries.x.dtype == torch.float32
    assert len(crafted.canaries) == 4


class _NoSequence(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 10)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (_NoSequence(), "does not end in a linear layer"),
        (nn.Sequential(nn.Flatten(), nn.Linear(64, 10, bias=False)), "does not end in a linear layer"),
        (nn.Sequential(nn.Flatten(), nn.Linear(64, 10), nn.Tanh()), "does not end in a linear layer"),
        (nn.Sequential(nn.Flatten(), nn.Dropout(), nn.Linear(64, 10)), "drops units at random"),
    ],
)
def test_other_models_are_refused_by_name(model, reason):
    with pytest.raises(ConfigError, match=f"'my-model': .*{reason}"):
        craft(model, "my-model", _known((1, 8, 8)), 10, torch.Generator())


def test_known_records_that_no_class_wins_are_refused():
    model = build_model("linear", Form((2,), 4), seed=0)
    middle = TensorData(torch.full((3, 2), 0.75), torch.zeros(3, dtype=torch.int64), tuple("abcd"))
    with pytest.raises(ConfigError, match="No known record"):
        craft(model, "linear", middle, 4, torch.Generator())
