"""An output may depend on its own example alone; whatever else it depends on is refused, in words."""

import pickle

import pytest
import torch
from structured import Called
from torch import Tensor, nn

from fl_dp.engine.tracing.harness import batch_of, same
from fl_dp.engine.tracing.independence import check_independence
from fl_dp.engine.tracing.synthetic import synthetic
from fl_dp.errors import CallError, ModelError, ProbeError


def _check(function):
    batch = synthetic(batch_of((torch.randn(5, 4),), {}), truth=True)
    return check_independence(Called(nn.Identity(), lambda _, x: function(x)), {}, batch).examples


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.sum(1).argsort().argsort(),  # the rank in the batch, an integer
        lambda x: x - x.mean(0),
        lambda x: x.cumsum(0),
        lambda x: x + torch.cat([x[1:], torch.zeros_like(x[:1])]),  # moves only the one before it
        lambda x: torch.where(x[-1:] > 0, x, torch.inf),
        lambda x: x + 1e-3 * x.abs().mean(),
        lambda x: {"own": x, "mixed": [x.flip(0)]},
    ],
)
def test_outputs_that_depend_on_another_example_are_refused(function):
    with pytest.raises(ProbeError, match="depends on another example"):
        _check(function)


@pytest.mark.parametrize("example", [0, 1, 2])
def test_each_example_is_tried(example):
    """One that moves all others is found, whichever it is."""
    with pytest.raises(ProbeError, match="depends on another example"):
        _check(lambda x: x + x[example])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.argmax(1),
        lambda x: x[:, :0],
        lambda x: x * torch.where(x > 0, torch.inf, 1.0).nan_to_num(posinf=torch.inf),
        lambda x: torch.where(x > 0, x, -torch.inf),
        lambda x: {"y": x, "constant": torch.ones(2), "number": torch.tensor(3.0), "none": None},
        lambda x: x * 0,
        lambda x: x * 1e30,
    ],
)
def test_outputs_of_their_own_example_pass_whatever_their_type_and_values(function):
    assert _check(function)


def test_the_paths_of_outputs_that_hold_examples_are_found():
    assert _check(lambda x: (x, {"b": x.sum(1), "c": torch.ones(4)})) == {"[0]", "[1]['b']"}


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: {"y": x, "mean": x.mean()}, r"output \['mean'\] has shape \(\)"),
        (lambda x: {"y": x, "some": x[x > 0]}, r"output \['some'\] has shape"),
        (lambda x: torch.ones(2), r"no tensor of shape \(3, \.\.\.\)"),
        (lambda x: {str(float(x[0, 0])): x}, "another structure for other data"),
        (lambda x: x[:, :1] / 0 * 0, "holds NaN"),
    ],
)
def test_outputs_that_no_example_owns_are_refused(function, words):
    with pytest.raises(ModelError, match=words):
        _check(function)


def test_a_model_that_remembers_is_refused():
    seen: list[Tensor] = []

    def remembers(x: Tensor) -> Tensor:
        seen.append(x)
        return x + len(seen)

    with pytest.raises(ProbeError, match="remembers data of earlier batches"):
        _check(remembers)
    with pytest.raises(ProbeError, match="remembers data of earlier batches"):
        _check(lambda x: {str(len(seen)): x} if seen.append(x) is None else x)


def test_random_numbers_of_torch_are_the_same_in_every_call():
    assert _check(lambda x: x * torch.bernoulli(0.5 * torch.ones_like(x[:1])))


def test_a_model_that_cannot_be_called_says_so_and_its_words_are_not_ours():
    with pytest.raises(CallError, match="raised IndexError on 3 synthetic examples") as refusal:
        _check(lambda x: x[:, 7])
    sent = pickle.loads(pickle.dumps(refusal.value))  # as from an actor
    assert str(sent).endswith("The model's own words: index 7 is out of bounds for dimension 1 with size 4")
    assert sent.own_words.endswith("makes everything else itself.")
    assert "own words" not in sent.own_words


def test_an_output_whose_shape_another_example_decides_is_refused():
    with pytest.raises(ProbeError, match=r"shape .* depends on another example.*: \(\d,\), .* total_length="):
        _check(lambda x: x[:, : 1 + int(x[0, 0] > 0)] * 0)


def test_a_buffer_that_is_written_is_named_and_the_model_s_own_stays():
    model = Called(nn.BatchNorm1d(4), lambda m, x: (m.running_mean.add_(x.sum(0)), x)[1])
    with pytest.raises(ProbeError, match=r"buffer layer\.running_mean, which .*: layer \(BatchNorm1d\)"):
        check_independence(model, {}, synthetic(batch_of((torch.randn(5, 4),), {}), truth=True))
    assert not model.layer.running_mean.any()


HALF = (torch.bfloat16, torch.float16)
ONE = torch.tensor([1.0, -2.0, 0.0])


SPECIAL = torch.tensor([1.0, torch.inf, -torch.inf, torch.nan])


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (ONE, ONE, True),
        (ONE, ONE * (1 + 1e-6), True),  # another order of summation
        (ONE, ONE + torch.tensor([0.0, 0.0, 1e-6]), True),  # beside a 2, it may be rounding
        (ONE, ONE + torch.tensor([0.0, 0.0, 1e-3]), False),
        (ONE, ONE.double(), False),
        (ONE, ONE.view(1, 3), False),
        (ONE, torch.tensor([1.0, -2.0, torch.nan]), False),
        (ONE, torch.tensor([1.0, -2.0, torch.inf]), False),
        (SPECIAL, SPECIAL.clone(), True),
        (SPECIAL, SPECIAL * -1, False),
        (SPECIAL[:2], torch.tensor([1.01, torch.inf]), False),  # an infinity does not hide the rest
        (SPECIAL[:2] * 1e-8, SPECIAL[:2] * 1.01e-8, False),
        *((torch.tensor([1.0, 0.0]).to(d), torch.tensor([1.0, 2e-3]).to(d), False) for d in HALF),
    ],
)
def test_the_same_is_the_same_up_to_rounding(one, other, expected):
    """In half precision a thousandth is the most that passes."""
    assert same(one, other) is expected
    assert same(other, one) is expected
