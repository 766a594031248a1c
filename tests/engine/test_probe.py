"""What the engine cannot protect is found at the start, on synthetic inputs, however it is spelt."""

import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from definition import clipped_by_engine
from structured import Called, Weight
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pack_sequence
from torch.utils.checkpoint import checkpoint

from fl_dp.engine.backward import Axes
from fl_dp.engine.gradients.layouts import Dense
from fl_dp.engine.probe import _Trial, probe
from fl_dp.engine.rule import Rule
from fl_dp.engine.rule_table import RULES
from fl_dp.engine.tracing.axis import BatchAxis
from fl_dp.engine.tracing.capture import UseKey
from fl_dp.errors import ModelError, NoRuleError, ProbeError


def linear(function=lambda m, x: m(x)) -> nn.Module:
    """A linear layer, called by `function`."""
    return Called(nn.Linear(4, 3), function)


def batch_second() -> nn.Module:
    return linear(lambda m, x: m(x.transpose(0, 1).contiguous()).transpose(0, 1))


def used(axes) -> set[str]:
    return {key.parameters[0] for key in axes}


def test_finds_the_batch_axis_of_every_use():
    axes = probe(batch_second(), torch.randn(5, 7, 4))
    assert set(axes.batch.values()) == {BatchAxis(0, minor=True)}  # T = 7
    assert used(axes.batch) == {"layer.weight", "layer.bias"}


def _meets_in_the_gradients(m, x):
    """What it adds and takes away cancels in the outputs, not in the gradients."""
    mean = x.mean(0).expand_as(x)
    return (m(x) + m(mean) - m(mean).detach()).tanh()


def test_a_bias_whose_gradient_cancels_before_a_norm_of_each_channel_is_rounding_and_no_mistake():
    """Convolution with a bias, batch norm: what `replace_batch_norms` makes of most small networks."""
    for seed in range(3):
        torch.manual_seed(seed)
        body = nn.Sequential(nn.Conv2d(1, 8, 3), nn.GroupNorm(8, 8), nn.ReLU(), nn.Flatten())
        model = nn.Sequential(body, nn.Linear(288, 3))
        assert "0.0.bias" in used(probe(model, torch.randn(5, 1, 8, 8)).batch)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (nn.BatchNorm1d(4, affine=False), r"buffer 1\.running_mean"),
        (nn.BatchNorm1d(4, affine=False, track_running_stats=False), "depends on another example"),
        (linear(lambda m, x: m(x) - m(x).mean(0).detach()), "depends on another example"),
        (linear(lambda m, x: m(x + x.roll(1, 0))), "depends on another example"),
        (linear(_meets_in_the_gradients), "depends on another example"),
        (Called(nn.RNN(4, 4), lambda m, x: m(x[:, None])[0]), r"dimension 1: 1\.layer \(RNN\)"),
    ],
)
def test_examples_that_influence_one_another_are_refused(model, words):
    with pytest.raises(ProbeError, match=words):
        probe(nn.Sequential(nn.Linear(4, 4), model), torch.randn(5, 4))


def test_batch_norm_in_evaluation_mode_is_fine_because_its_statistics_stand_still():
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).eval()
    assert used(probe(model, torch.randn(5, 4)).fallback) == {"1.weight", "1.bias"}


def test_a_function_of_the_users_with_arguments_that_are_no_tensors_is_refused_by_name():
    """Its backward function returns a gradient for each argument; the graph knows the tensors alone."""

    class Power(torch.autograd.Function):
        @staticmethod
        def forward(ctx, exponent, x, weight):
            ctx.save_for_backward(x, weight)
            return x**exponent * weight

        @staticmethod
        def backward(ctx, grad):
            x, weight = ctx.saved_tensors
            return None, grad * 2 * x * weight, (grad * x**2).sum(0)

    with pytest.raises(NoRuleError, match=r"Power.* \(parameter weight\): .* not tensors.* freeze"):
        probe(Weight((4,), lambda x, w: Power.apply(2, x, w)), torch.randn(5, 4))


def test_layers_behind_a_zero_initialised_one_are_seen():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    nn.init.zeros_(model[1].weight)
    assert used(probe(model, torch.randn(5, 4)).batch) == {"0.weight", "0.bias", "1.weight", "1.bias"}


def test_model_buffers_gradients_and_the_global_random_state_are_left_alone():
    model = nn.Sequential(nn.Linear(4, 4), nn.GroupNorm(2, 4))
    before, random_state = [p.clone() for p in model.parameters()], torch.get_rng_state()
    probe(model, torch.randn(0, 4))
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert all(p.grad is None for p in model.parameters())
    assert model.training
    random_state_after = torch.get_rng_state()
    torch.set_rng_state(random_state)
    torch.randn(0, 4)
    assert torch.equal(random_state_after, torch.get_rng_state())


def test_values_of_the_inputs_are_not_read():
    assert probe(nn.Linear(4, 2), torch.full((5, 4), float("nan"))) == probe(
        nn.Linear(4, 2), torch.randn(5, 4)
    )


def test_masks_hide_no_use():
    """In PyTorch's mask true leaves out: if all of it were, any layout would have seemed to fit."""
    attention = nn.MultiheadAttention(4, 2, batch_first=True)
    model = Called(attention, lambda m, x, mask: m(x, x, x, key_padding_mask=mask)[0])
    axes = probe(model, torch.randn(5, 4, 4), torch.zeros(5, 4, dtype=torch.bool))
    weights = {key.parameters[0]: axis for key, axis in axes.batch.items() if key.operator == "MmBackward0"}
    assert weights == {"layer.in_proj_weight": BatchAxis(0, minor=True)}


def test_a_layout_that_one_row_an_example_did_not_show_is_refused_later():
    """(N, 1) and (1, N) look alike; what is (T, N) later must not be taken for (N, T)."""
    model = batch_second()
    axes = probe(model, torch.randn(5, 1, 4))
    clipped_by_engine(model, torch.randn(6, 1, 4), 1.0, axes=axes)
    with pytest.raises(ProbeError, match="checked with one"):
        clipped_by_engine(model, torch.randn(6, 2, 4), 1.0, axes=axes)


def test_a_batch_between_an_example_s_rows_is_refused_where_their_number_is_another():
    """(2, N, 4) and (4, N, 2) have as many rows; an example of 6 rows may lie in several ways."""
    model = linear(lambda m, x: m(x.transpose(0, 1).contiguous()).transpose(0, 1))
    axes = probe(model, torch.randn(5, 2, 4, 4))
    assert set(axes.batch.values()) == {BatchAxis(0, between=(2, 4))}
    with pytest.raises(ProbeError, match=r"6 rows an example .* checked with 8, .* inputs of this size"):
        clipped_by_engine(model, torch.randn(6, 2, 3, 4), 1.0, axes=axes)


def _hides_a_part_and_packs(m, x):
    x = checkpoint(m[0], x, use_reentrant=True)
    lengths = torch.full((len(x),), 2)
    return m[1](pack_padded_sequence(x, lengths, batch_first=True))[1][0]


HIDING = nn.ModuleList([nn.Linear(4, 4), nn.GRU(4, 3, batch_first=True)])
TWO = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
PACKED = {"x": pack_sequence([torch.randn(3, 4), torch.randn(1, 4)])}
ROWS, WORDS = torch.randn(5, 2, 4), torch.ones(5, 3, dtype=torch.int64)
REFUSED = [
    (
        Called(nn.GRU(4, 3), lambda m, inputs: m(inputs["x"])[1][0]),
        PACKED,
        r"PackedSequence, .* padded sequences .* enforce_sorted=False",
    ),
    (nn.Sequential(nn.Linear(4, 4), Called(HIDING, _hides_a_part_and_packs)), ROWS, "use_reentrant=False"),
    (nn.DataParallel(nn.Linear(4, 2)), ROWS, r"itself \(DataParallel\)\. .* \(its \.module\)"),
    (nn.Sequential(nn.Linear(4, 4), nn.DataParallel(nn.Linear(4, 2))), ROWS, r": 1 \(DataParallel\)\."),
    (
        Called(TWO, lambda m, x: m[0](x) + 0 * m[1](x)),  # matters to no loss
        ROWS,
        r"layer\.1\.\w+\): in 4 synthetic batches .* freeze the parameter",
    ),
    # one example's words would move the gradients of all others with the same words
    (nn.Embedding(11, 4, scale_grad_by_freq=True), WORDS, "scale_grad_by_freq.*whole batch"),
    (nn.EmbeddingBag(11, 4, scale_grad_by_freq=True), WORDS, "scale_grad_by_freq.*whole batch"),
    (linear(lambda m, x: x * 2), ROWS, "No output of the model depends on a trainable parameter"),
]


@pytest.mark.parametrize(("model", "inputs", "words"), REFUSED)
def test_what_cannot_be_protected_is_refused_with_what_to_do(model, inputs, words):
    with pytest.raises(ModelError, match=words):
        probe(model, inputs)


def test_any_structure_of_inputs_and_outputs():
    def run(layers, batch, *, mask, flag):
        assert flag is None
        x = layers[0](batch["ids"]) + batch["more"][0]
        return {"y": (layers[1](x) * mask,), "table": layers[0].weight, "none": None}

    batch = {"ids": torch.zeros(5, 2, dtype=torch.int64), "more": [torch.randn(5, 2, 4)]}
    model = Called(nn.ModuleList([nn.Embedding(11, 4), nn.Linear(4, 3)]), run)
    axes = probe(model, batch, mask=torch.ones(2, 3), flag=None)
    assert used(axes.batch) == {"layer.0.weight", "layer.1.weight", "layer.1.bias"}


def test_under_autocast_the_checks_run_in_full():
    model = nn.Sequential(nn.Conv2d(1, 16, 5), nn.Tanh(), nn.Flatten(), nn.Linear(16 * 64, 10))
    inputs = torch.randn(5, 1, 12, 12)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = probe(model, inputs)
    assert found == probe(model, inputs)


@pytest.mark.parametrize("wrong_by", [0.01, -1.0])
@pytest.mark.parametrize("name", ["AddmmBackward0", "ConvolutionBackward0"])
def test_a_rule_that_is_wrong_by_a_hundredth_is_refused(name, wrong_by, monkeypatch):
    """Whoever adds a rule: what it gives is held against one backward pass per example at every start."""
    right = RULES[name].layout_of

    def wrong(site):
        return Dense(right(site).instantiate() * (1 + wrong_by))

    monkeypatch.setitem(RULES, name, Rule(wrong))
    model = nn.Sequential(nn.Conv1d(2, 3, 2), nn.Tanh(), nn.Flatten(), nn.Linear(9, 2))
    with pytest.raises(ProbeError, match="is not what one backward pass per example gives"):
        probe(model, torch.randn(5, 2, 4))


def test_gradients_are_on_during_the_check_whatever_the_caller_s_mode():
    with torch.no_grad():
        assert probe(nn.Linear(4, 2), torch.randn(5, 4)).batch
        assert not torch.is_grad_enabled()


KEY, OTHER = (UseKey("MmBackward0", 1, (name,)) for name in ("one", "other"))
SEEN = _Trial(Axes({KEY: BatchAxis()}))
MORE = _Trial(Axes({OTHER: BatchAxis(1)}, frozenset({frozenset({KEY})}), frozenset({OTHER})), settled=True)
HIDDEN = _Trial(Axes({}), (OTHER,))


@pytest.mark.parametrize(
    ("trials", "found"),
    [
        ([MORE], {OTHER}),
        ([SEEN, MORE], {KEY, OTHER}),
        ([HIDDEN, MORE], {OTHER}),
        ([SEEN, HIDDEN, HIDDEN, HIDDEN], {KEY}),
        ([HIDDEN, HIDDEN, HIDDEN, SEEN], {KEY}),
    ],
)
def test_what_several_synthetic_batches_show_is_joined_until_it_is_settled(trials, found, monkeypatch):
    script = iter(trials)
    monkeypatch.setattr("fl_dp.engine.probe._try", lambda *_, **__: next(script))
    axes = probe(nn.Linear(4, 2), torch.randn(5, 4))
    assert (set(axes.batch), list(script)) == (found, [])
    if trials[-1] is MORE:
        assert (axes.shared, axes.fallback) == (MORE.axes.shared, MORE.axes.fallback)


@pytest.mark.parametrize("wrapped_again", [False, True])
def test_autocast_in_a_forward_of_accelerate_is_off_and_one_in_the_models_own_stays(wrapped_again):
    AcceleratorState._reset_state(reset_partial_state=True)
    model, seen = nn.Sequential(nn.Linear(20, 64), nn.LayerNorm(64), nn.Linear(64, 2)), []
    model[0].register_forward_hook(lambda layer, given, output: seen.append(output.dtype))
    prepared = Accelerator(mixed_precision="bf16", cpu=True).prepare_model(model)
    forward = prepared.forward
    if wrapped_again:
        prepared.forward = lambda x: forward(x)
        with pytest.raises(ProbeError, match="is not what one backward pass per example gives"):
            probe(prepared, torch.randn(5, 20))
    else:
        assert used(probe(prepared, torch.randn(5, 20)).batch) >= {"0.weight", "2.bias"}
        assert set(seen) == {torch.float32}
        assert prepared.forward is forward
    seen.clear()
    prepared(torch.randn(5, 20))
    assert seen == [torch.bfloat16]
    AcceleratorState._reset_state(reset_partial_state=True)
