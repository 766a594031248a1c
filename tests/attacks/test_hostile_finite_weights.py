"""Weights that are finite and make every logit a rounding error, which one more record changes for all.

The server knows all records but Alice's, and sends large weights at right angles to them. Their logits should
be zero, and are the rounding of a sum of large terms, which softmax turns into gradients of full length. If
the last bits of a row depend on its place, or on how many rows there are, Alice in front turns all the
others' gradients: by 10.5 C at weights of 1e9.

Now weights beyond 1e6 are declined, and passes have one shape, in which a row's bits do not depend on its
place. Larger weights are tried here, too: the policy is not what protects.
"""

import pytest
import torch
from moving import SEEN, moved, trainer_for
from torch import Tensor, nn

from fl_dp.data.tensor_data import TensorData
from fl_dp.form import Form
from fl_dp.models.build import build_model

TRIALS, MOST = 6, 90


def _orthogonal(layer: nn.Linear, known: Tensor, scale: float) -> None:
    """Let the layer's weights be at right angles to known (n, d), up to the rounding to float32."""
    basis, _ = torch.linalg.qr(known.double().T)
    weight = torch.randn(layer.out_features, known.shape[1], dtype=torch.float64)
    weight -= weight @ basis @ basis.T
    with torch.no_grad():
        layer.weight.copy_(weight * (scale / weight.abs().max()))
        layer.bias.zero_()


def _known(count: int, features: int) -> tuple[Tensor, Tensor]:
    """Records (count, features) and vectors that they are sums of: there is room for weights beside them."""
    span = torch.randn(min(count, features // 2), features)
    return (span if len(span) == count else torch.randn(count, len(span)) @ span / 6), span


def _with_alice(known: Tensor, place: int, classes: int) -> TensorData:
    x = torch.cat([known[:place], torch.randn(1, *known.shape[1:]), known[place:]])
    return TensorData(x, torch.randint(0, classes, (len(x),)), tuple(map(str, range(classes))))


@pytest.mark.parametrize("scale", [1e6, 1e9])
@pytest.mark.parametrize(("features", "outputs"), [(785, 10), (64, 10), (785, 1), (64, 1)])
def test_alice_moves_the_sum_of_a_linear_model_by_no_more_than_c(features, outputs, scale):
    model = build_model("linear", Form((features,), outputs), seed=0)
    trainer = trainer_for(model, (features,), outputs)
    for trial in range(TRIALS):
        count = int(torch.randint(1, MOST, ()))
        known, span = _known(count, features)
        _orthogonal(model[1], span, scale)
        place = 0 if trial % 2 else int(torch.randint(0, count + 1, ()))
        data = _with_alice(known, place, max(2, outputs))
        for rows in (8, 64, 96):
            seen = moved(trainer, data, place, rows)
            assert max(seen.excess, seen.error) < SEEN, (count, place, rows)


@pytest.mark.parametrize("rows", [5, 7, 33])
def test_passes_of_other_numbers_of_rows_are_as_steady(rows):
    """With one output. A client's own physical-batch-size may be any number."""
    model = build_model("linear", Form((785,), 1), seed=0)
    trainer = trainer_for(model, (785,), 1)
    for _ in range(4 * TRIALS):
        known, span = _known(64, 785)
        _orthogonal(model[1], span, 1e6)
        seen = moved(trainer, _with_alice(known, 0, 2), 0, rows)
        assert max(seen.excess, seen.error) < SEEN


@pytest.mark.parametrize("scale", [1e6, 1e9])
def test_nor_does_she_of_the_tanh_cnn(scale):
    """Its last layer gets what the layers before make of the known pictures."""
    model = build_model("tanh-cnn", Form((1, 28, 28), 10), seed=0)
    trainer = trainer_for(model, (1, 28, 28))
    for count in (1, 9, 17):
        known = torch.randint(0, 256, (count, 1, 28, 28)).to(torch.uint8)
        with torch.no_grad():
            model[7].weight.mul_(30)  # else all pictures look alike to the last layer
            _orthogonal(model[9], model[:9](known / 127.5 - 1)[:16], scale)
        alice = torch.randint(0, 256, (1, 1, 28, 28)).to(torch.uint8)
        y = torch.randint(0, 10, (count + 1,))
        for place in {0, count // 2}:
            x = torch.cat([known[:place], alice, known[place:]])
            for rows in (8, 64):
                seen = moved(trainer, TensorData(x, y, tuple("0123456789")), place, rows)
                assert max(seen.excess, seen.error) < SEEN, (count, place, rows)
