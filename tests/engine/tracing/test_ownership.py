"""What three synthetic examples cannot show is seen in the first real batch, or in every one."""

import pytest
import torch
from definition import trainable
from structured import Called
from torch import Tensor, nn
from torch.nn import functional as F
from without_rule import Slope

from fl_dp.engine.probe import probe
from fl_dp.engine.tracing import ownership
from fl_dp.engine.tracing.capture import find_uses, output_grads
from fl_dp.engine.tracing.ownership import OwnerCheck, _lengths, data_may_move_rows
from fl_dp.errors import ProbeError

pytestmark = pytest.mark.usefixtures("exact")


@pytest.fixture(autouse=True)
def _same_weights(monkeypatch):
    """Weights are drawn: four examples have the same ones in a run of 512, in which nothing is found."""
    generator = torch.Generator().manual_seed(0)
    monkeypatch.setattr(ownership, "_generator", lambda: generator)


def skips_padding() -> nn.Module:
    """Works on rows that are not zero: all of the synthetic ones."""

    def run(m: nn.Module, x: Tensor) -> Tensor:
        rows = x.norm(dim=-1) > 0.01
        output = x.new_zeros(*x.shape[:2], 5)
        output[rows] = m[1](m[0](x).tanh()[rows])
        return output

    return Called(nn.ModuleList([nn.Linear(6, 6), nn.Linear(6, 5)]), run)


def last_token() -> nn.Module:
    return Called(nn.Linear(6, 5), lambda m, x: m(x)[torch.arange(len(x)), (x[..., 0] > 0).int().argmax(-1)])


def _found(model: nn.Module, losses: Tensor, inputs: Tensor):
    axes = probe(model, inputs)
    return losses, find_uses(losses, trainable(model), axes.shared), axes.batch


def _summed(model: nn.Module, inputs: Tensor) -> Tensor:
    return model(inputs).sin().flatten(1).sum(1)


def _checked(check: OwnerCheck, losses: Tensor, uses, axes) -> None:
    """As a step does: around a backward pass."""
    comparison = check.begin(losses, uses, axes)
    if comparison:
        output_grads(losses, uses, comparison.note, retain_graph=True)
    check.end(comparison)


def test_rows_that_data_moved_to_other_examples_are_refused_though_their_number_fits():
    """Eight of sixteen rows: two for each of the four examples, but all are the first two examples'."""
    model, inputs = skips_padding(), torch.randn(4, 4, 6)
    inputs[2:] = 0
    found = _found(model, _summed(model, inputs), inputs)
    with pytest.raises(ProbeError, match=r"layer\.1\.bias.*data decide where the model puts its rows"):
        _checked(OwnerCheck(), *found)


LOSSES = {
    "contrastive": lambda y: F.cross_entropy(y @ y.T, torch.arange(len(y)), reduction="none"),
    "a mean for all": lambda y: y.sin().mean().expand(len(y)),
    "shares of the sum": lambda y: y.sum(1) / y.sum(),
    "of the next example": lambda y: y.roll(1, 0).sum(1),
}


@pytest.mark.parametrize("case", LOSSES)
def test_losses_that_mix_examples_are_refused(case):
    model, inputs = nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 3)), torch.randn(9, 6)
    found = _found(model, LOSSES[case](model(inputs)), inputs)
    with pytest.raises(ProbeError, match="the losses mix examples"):
        _checked(OwnerCheck(), *found)


MODELS = {
    "linear": (lambda: nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3)), (6,)),
    "convolution": (lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.GroupNorm(2, 4)), (3, 8, 8)),
    "attention": (lambda: nn.TransformerEncoderLayer(6, 2, 8, 0.0, batch_first=True), (4, 6)),
    "one token": (last_token, (4, 6)),
    "nothing left out": (skips_padding, (4, 6)),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("case", MODELS)
def test_models_that_keep_examples_apart_pass_whatever_the_type(case, dtype):
    make, shape = MODELS[case]
    model, inputs = make().to(dtype), torch.randn(9, *shape, dtype=dtype)
    _checked(OwnerCheck(), *_found(model, _summed(model, inputs), inputs))


def test_an_example_that_is_not_finite_does_not_make_others_suspect_nor_move_a_random_number(monkeypatch):
    monkeypatch.undo()  # weights are drawn as ever
    model, inputs = nn.Linear(6, 4), torch.randn(9, 6)
    inputs[2] = float("nan")
    found, before = _found(model, _summed(model, inputs), inputs), torch.get_rng_state()
    _checked(OwnerCheck(), *found)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize(
    ("model", "inputs", "may"),
    [
        (
            nn.Sequential(nn.Embedding(11, 6).requires_grad_(False), nn.Linear(6, 5)),
            torch.ones(3, 4).long(),
            False,
        ),
        (last_token(), torch.randn(3, 4, 6), True),
        (nn.Sequential(nn.Linear(6, 5), Slope(5)), torch.randn(3, 6), True),  # who knows what Python does
    ],
)
def test_only_rows_moved_above_a_use_count(model, inputs, may):
    losses = _summed(model, inputs)
    assert data_may_move_rows(losses, find_uses(losses, trainable(model))) is may


def _checks(check: OwnerCheck, monkeypatch, model: nn.Module, inputs: Tensor) -> int:
    found, count = _found(model, _summed(model, inputs), inputs), []
    with monkeypatch.context() as patch:
        finish = ownership.Comparison.finish
        patch.setattr(ownership.Comparison, "finish", lambda one: (count.append(1), finish(one)))
        _checked(check, *found)
    return len(count)


@pytest.mark.parametrize(
    ("make", "shapes", "expected"),
    [
        (
            lambda: nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 3)),
            [(9,), (4,), (1,), (12,)],
            [1, 0, 0, 0],
        ),
        (last_token, [(9, 4), (9, 4), (1, 4)], [1, 1, 0]),
        (lambda: nn.Linear(6, 5), [(9, 3), (9, 3), (9, 4)], [1, 0, 1]),
    ],
    ids=["of fixed shape", "data may move rows", "inputs of another length"],
)
def test_a_model_is_checked_once_unless_its_rows_may_lie_otherwise(make, shapes, expected, monkeypatch):
    check, model = OwnerCheck(), make()
    assert [_checks(check, monkeypatch, model, torch.randn(*shape, 6)) for shape in shapes] == expected


def _scaled(inputs: Tensor, factor: float, loss=lambda y: y.sum(1)):
    """One linear layer whose gradients are multiplied by `factor`."""
    model = nn.Linear(6, 4).to(inputs.dtype)
    axes = probe(model, inputs)
    losses = loss(model(inputs).sin()) * factor
    return losses, find_uses(losses, trainable(model)), axes.batch


# Rows below 3e-34 (float32; float64: 1e-303) are not judged. Their squares are zero, or have few digits.
@pytest.mark.parametrize(
    ("dtype", "factor"),
    [
        *((torch.float32, 10.0**e) for e in (-44, -40, -37, -32, -25, -21, -19, 0, 19, 30)),
        *((torch.float64, 10.0**e) for e in (-320, -310, -300, -200, -160, 0, 160, 300)),
        *((torch.bfloat16, 10.0**e) for e in (-40, -32, -21, 30)),
        *((torch.float16, 10.0**e) for e in (-7, -5, -3, 0)),
    ],
)
def test_powers_of_two_scale_rows_of_any_length(dtype, factor):
    inputs = torch.randn(9, 6, dtype=dtype)
    for _ in range(5):  # the powers are drawn anew each time
        _checked(OwnerCheck(), *_scaled(inputs, factor))


@pytest.mark.parametrize(
    ("dtype", "factor"),
    [(torch.float32, 10.0**e) for e in (-32, -21, 19, 30)] + [(torch.float64, 10.0**e) for e in (-200, 200)],
)
def test_and_rows_of_another_example_are_found_at_any_length(dtype, factor):
    found = _scaled(torch.randn(9, 6, dtype=dtype), factor, lambda y: y.roll(1, 0).sum(1))
    with pytest.raises(ProbeError, match="the losses mix examples"):
        _checked(OwnerCheck(), *found)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.complex128])
@pytest.mark.parametrize("exponent", [-25, 0, 25])
def test_lengths_are_those_of_the_definition(dtype, exponent, monkeypatch):
    monkeypatch.setattr(ownership, "_WIDE_AT_A_TIME", 20)
    rows = torch.randn(7, 2, 5, dtype=dtype)
    factor = 10.0 ** (exponent if rows.abs().dtype == torch.float32 else 8 * exponent)
    expected = rows.to(torch.complex128).abs().pow(2).sum(2).sqrt()
    torch.testing.assert_close(_lengths(rows * factor) / factor, expected, rtol=1e-6, atol=0)
    for nothing in (torch.zeros_like(rows), rows[..., :0]):
        assert not _lengths(nothing).any()


def test_a_batch_that_fails_is_told_where_somebody_listens_and_checked_no_more_often():
    told: list[ProbeError] = []
    model, inputs = nn.Linear(6, 3), torch.randn(9, 6)
    found = _found(model, LOSSES["a mean for all"](model(inputs)), inputs)
    check = OwnerCheck(report=told.append)
    _checked(check, *found)
    _checked(check, *found)
    assert [type(error) for error in told] == [ProbeError]
    silent = OwnerCheck()
    for _ in range(2):
        with pytest.raises(ProbeError, match="the losses mix examples"):
            _checked(silent, *found)
