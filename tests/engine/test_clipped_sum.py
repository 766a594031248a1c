"""Functions and bounds together: each sum equals its definition, and no example adds more than its bound."""

import math

import pytest
import torch
from definition import assert_equal, length, per_example_grads, projected_losses, trainable
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fl_dp.engine.backward import keep_gradients
from fl_dp.engine.bounds import split_bound
from fl_dp.engine.clip_functions import clip_function
from fl_dp.engine.clipping import ClippedSum, clipped_grad_sum, empty_sum, sum_of
from fl_dp.engine.kernel_choice.chooser import KernelChooser
from fl_dp.errors import ConfigError

FUNCTIONS = [
    clip_function("abadi"),
    clip_function("automatic"),
]
BOUNDS = {
    "one": 0.3,
    "layers": {"0": 0.1, "2": 0.4},
    "parameters": {"0.weight": 0.1, "0.bias": 0.2, "2.weight": 0.3, "2.bias": 0.4},
}


def _model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 7), nn.Tanh(), nn.Linear(7, 3))


def _clipped(model, inputs, bounds, function="abadi", mode="mixed", losses=projected_losses):
    return clipped_grad_sum(
        losses(model, inputs),
        trainable(model),
        max_grad_norm=bounds,
        clipping=function,
        chooser=KernelChooser(mode),
    )


def _linear(model, inputs):
    return model(inputs).sum(1)


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.name)
def test_equals_one_backward_per_example(function, bounds):
    model, inputs = _model().double(), torch.randn(9, 6, dtype=torch.float64)
    limits = BOUNDS[bounds] if isinstance(BOUNDS[bounds], dict) else {"": BOUNDS[bounds]}
    expected = {name: torch.zeros_like(p) for name, p in trainable(model).items()}
    norms = []
    for grads in per_example_grads(model, inputs):
        for group, limit in limits.items():
            names = [name for name in grads if name.startswith(group)]
            norms.append(torch.cat([grads[name].flatten() for name in names]).norm())
            for name in names:
                expected[name] += function.factors(norms[-1], limit) * grads[name]
    found = _clipped(model, inputs, BOUNDS[bounds], function)
    assert_equal(found.grads, expected)
    assert found.sensitivity == pytest.approx(math.hypot(*limits.values()))
    assert found.norms.shape == ((9,) if bounds == "one" else (9, len(limits)))
    torch.testing.assert_close(found.norms.flatten(), torch.stack(norms))
    assert found.clipping == function


@settings(max_examples=80, deadline=None)
@given(
    function=st.sampled_from(FUNCTIONS),
    bounds=st.sampled_from([0.05, {"0": 0.03, "2": 0.04}]),
    scales=st.tuples(*[st.sampled_from([0.0, 1e-30, 1e-20, 1e-4, 1.0, 1e6, 1e15, 1e25, 3e38])] * 2),
    positions=st.integers(1, 9),
    seed=st.integers(0, 10_000),
    mode=st.sampled_from(["mixed", "ghost", "instantiate"]),
)
def test_in_float32_one_example_never_adds_more_than_the_bound(
    function, bounds, scales, positions, seed, mode
):
    """The bound itself, and not a little more: rounding up makes room for rounding."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(6, 7), nn.Tanh(), nn.Linear(7, 3))
    inputs = torch.randn(1, positions, 6) * scales[0]
    clipped = _clipped(model, inputs, bounds, function, mode, lambda m, x: m(x).sum((1, 2)) * scales[1])
    assert length(clipped.grads) <= clipped.sensitivity
    for name, bound in bounds.items() if isinstance(bounds, dict) else ():
        assert length({n: g for n, g in clipped.grads.items() if n.startswith(name)}) <= bound


@pytest.mark.parametrize("num_elements", [10, 3_000_000])
@pytest.mark.parametrize("small", [1e-25, 2.0**-12, 1e-4])
def test_in_float32_long_gradients_are_bounded_exactly(num_elements, small):
    """Squares of 2^-12 beside 1 are half a unit in the last place, and may be lost in the sum."""
    model = nn.Module()
    model.scale = nn.Parameter(torch.ones(num_elements))
    inputs = torch.full((1, num_elements), small)
    inputs[0, 0] = 1.0
    clipped = _clipped(model, inputs, 1e-3, losses=lambda m, x: (x * m.scale).sum(1))
    assert 1e-3 * (1 - 4e-5) <= length(clipped.grads) <= 1e-3


@pytest.mark.parametrize("bounds", BOUNDS)
def test_an_example_that_is_not_finite_in_one_group_contributes_to_none_and_is_counted(bounds):
    model, inputs = _model(), torch.randn(6, 6)
    poisoned = inputs.clone()
    poisoned[2, 0] = math.nan  # through tanh, 2.bias alone stays finite
    found = _clipped(model, poisoned, BOUNDS[bounds], losses=_linear)
    clean = _clipped(model, torch.cat([inputs[:2], inputs[3:]]), BOUNDS[bounds], losses=_linear)
    assert_equal(found.grads, clean.grads, 1e-5)
    assert (found.num_non_finite, clean.num_non_finite) == (1, 0)
    assert (found + found + clean).num_non_finite == 2


@pytest.mark.usefixtures("where_finite")
@pytest.mark.parametrize("mode", ["ghost", "instantiate"])
@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("filling", [0.0, math.nan], ids=["filled up", "filled with NaN"])
def test_losses_behind_the_batch_count_nowhere(bounds, mode, filling):
    """Also if an example in the batch is not finite."""
    model, inputs = _model().double(), torch.randn(9, 6, dtype=torch.float64)
    inputs[4] = math.nan
    losses = _linear(model, torch.cat([inputs, torch.full((3, 6), filling, dtype=torch.float64)]))
    kept = keep_gradients(losses, trainable(model), None, KernelChooser(mode))
    found = sum_of(
        losses, kept, trainable(model), max_grad_norm=BOUNDS[bounds], ignored=torch.arange(12) >= 9
    )
    alone = _clipped(model, inputs, BOUNDS[bounds], mode=mode, losses=_linear)
    assert (found.sensitivity, alone.num_non_finite) == (alone.sensitivity, 1)
    torch.testing.assert_close(found.norms[:9], alone.norms, equal_nan=True)
    assert_equal(found.grads, alone.grads, 1e-12)


def test_physical_batches_with_bounds_per_layer_add_up_to_the_logical_batch():
    model, inputs = _model().double(), torch.randn(7, 6, dtype=torch.float64)
    bounds = split_bound(0.3, ["0", "2"])
    whole = _clipped(model, inputs, bounds, "automatic")
    parts = empty_sum(trainable(model), bounds, "automatic")
    for part in inputs.split(3):
        parts = parts + _clipped(model, part, bounds, "automatic")
    assert_equal(parts.grads, whole.grads)
    assert whole.sensitivity == parts.sensitivity == pytest.approx(0.3)
    assert parts.norms.shape == (7, 2)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (lambda p: empty_sum(p, 2.0), r"sensitivity 1.0.*sensitivity 2.0"),
        (lambda p: empty_sum(p, 1.0, "automatic"), r"Abadi\(\).*Automatic\(gamma=0.01\)"),
        (lambda p: empty_sum(p, {"0": 0.6, "2": 0.8}), "1 group.*2 group"),
    ],
)
def test_sums_that_were_clipped_otherwise_are_not_added(other, words):
    parameters = trainable(_model())
    with pytest.raises(ConfigError, match=words):
        empty_sum(parameters, 1.0) + other(parameters)


def test_the_sum_of_a_model_in_half_precision_is_in_float32():
    """In bfloat16 the sum's rounding would move it by more than one example may."""
    model = _model().bfloat16()
    inputs = torch.randn(5, 6, dtype=torch.bfloat16)
    for clipped in (_clipped(model, inputs, 0.3), empty_sum(trainable(model), 0.3)):
        assert isinstance(clipped, ClippedSum)
        assert {grad.dtype for grad in clipped.grads.values()} == {torch.float32}


@pytest.mark.parametrize("bound", [0.0, -1.0, math.nan, {"0": 1.0, "2": 0.0}])
def test_a_bound_that_bounds_nothing_is_refused(bound):
    with pytest.raises(ConfigError, match="max_grad_norm="):
        _clipped(_model(), torch.randn(3, 6), bound)


def test_equal_examples_have_equal_lengths_in_every_place():
    """PyTorch's sum over stacked lengths adds those of the last 8 of 40 examples in another order."""
    torch.manual_seed(0)
    model = nn.Sequential(*(layer for _ in range(6) for layer in (nn.Linear(8, 8), nn.Tanh())))
    for seed in range(8):
        torch.manual_seed(seed)
        losses = model(torch.randn(1, 8).expand(40, 8).contiguous()).sum(1)
        norms = clipped_grad_sum(losses, dict(model.named_parameters()), max_grad_norm=1.0).norms
        assert len(norms.unique()) == 1
