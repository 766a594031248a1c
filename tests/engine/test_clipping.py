"""Definition: equals one backward per example. Promise: no example ever contributes more than C."""

import pytest
import torch
import torch.nn.functional as F
from definition import assert_equal, clipped_by_definition, clipped_by_engine, length, trainable
from structured import Beside, Called, Weight
from torch import Tensor, nn
from without_rule import Slope

from fl_dp.engine.clipping import clipped_grad_sum
from fl_dp.engine.kernel_choice.chooser import KernelChooser
from fl_dp.engine.probe import probe
from fl_dp.engine.sum_error import ORDERED_ERROR
from fl_dp.errors import ConfigError, ModelError, NonFiniteError, NoRuleError

pytestmark = pytest.mark.usefixtures("exact")
MODES = ("mixed", "ghost", "instantiate")


def twice(layer: nn.Module) -> nn.Module:
    """One layer called twice: the cross terms of its two uses count."""
    return Called(layer, lambda m, x: m(torch.tanh(m(x))))


class LowRank(nn.Module):
    """A frozen-size weight with a low-rank correction, as LoRA merges it."""

    def __init__(self, width: int = 5) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(width, 6)), nn.Parameter(torch.randn(width))
        self.a, self.b = nn.Parameter(torch.randn(2, 6)), nn.Parameter(torch.randn(width, 2))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight + 0.5 * self.b @ self.a, self.bias)


def attention(m: nn.Module, x: Tensor) -> Tensor:
    return m(x, x, x, need_weights=False)[0]


def batch_second(function):
    """On (T, N, d), as nn.MultiheadAttention works by default."""
    return lambda m, x: function(m, x.transpose(0, 1)).transpose(0, 1)


def tokens(n: int) -> Tensor:
    return torch.randint(0, 11, (n, 5))


def normal(*shape: int):
    return lambda n: torch.randn(n, *shape)


PLACES = torch.tensor([[0, 1, 2], [2, 3, 4], [4, 0, 1]])


CASES = {
    "linear": (lambda: nn.Linear(6, 5), normal(6)),
    "linear without bias": (lambda: nn.Linear(6, 5, bias=False), normal(6)),
    "linear over positions": (lambda: nn.Linear(6, 5), normal(4, 6)),
    "linear over two leading": (lambda: nn.Linear(6, 5), normal(4, 3, 6)),
    "linear over three, no bias": (lambda: nn.Linear(6, 5, bias=False), normal(2, 3, 2, 6)),
    "linear, batch second": (
        lambda: Called(nn.Sequential(nn.LayerNorm(6), nn.Linear(6, 5)), batch_second(nn.Module.__call__)),
        normal(4, 6),
    ),
    "linear, batch between": (
        lambda: Called(
            nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 3, bias=False)), batch_second(nn.Module.__call__)
        ),
        normal(2, 3, 6),
    ),
    "conv1d valid": (lambda: nn.Conv1d(3, 4, 3, padding="valid"), normal(3, 9)),
    "conv1d": (lambda: nn.Conv1d(3, 4, 3), normal(3, 9)),
    "conv1d dilated": (lambda: nn.Conv1d(3, 4, 3, dilation=2, padding=2), normal(3, 9)),
    "conv1d same": (lambda: nn.Conv1d(3, 4, 3, padding="same"), normal(3, 9)),
    "conv2d": (lambda: nn.Conv2d(3, 4, 3, padding=1), normal(3, 6, 7)),
    "conv2d valid": (lambda: nn.Conv2d(4, 6, (2, 3), padding="valid", groups=2, bias=False), normal(4, 5, 6)),
    "conv2d valid, strided": (lambda: nn.Conv2d(3, 4, 3, 2, "valid", dilation=2), normal(3, 7, 8)),
    "conv2d, one number for all": (
        lambda: Weight((4, 3, 2, 3), lambda x, w: F.conv2d(x, w, stride=2, padding=1, dilation=2)),
        normal(3, 6, 7),
    ),
    "conv2d first and second": (
        lambda: nn.Sequential(nn.Conv2d(2, 4, 3), nn.Tanh(), nn.Conv2d(4, 3, 2)),
        normal(2, 6, 6),
    ),
    "conv2d strided, odd kernel": (lambda: nn.Conv2d(3, 4, (2, 3), (2, 1), (1, 0)), normal(3, 7, 6)),
    "conv2d no bias": (lambda: nn.Conv2d(3, 4, 3, bias=False), normal(3, 6, 6)),
    "conv2d pointwise": (lambda: nn.Conv2d(3, 4, 1, stride=2), normal(3, 6, 6)),
    "conv2d grouped": (lambda: nn.Conv2d(4, 6, 3, groups=2, dilation=2), normal(4, 7, 7)),
    "conv2d depthwise": (lambda: nn.Conv2d(4, 8, 3, groups=4, padding=1), normal(4, 5, 5)),
    "conv3d": (lambda: nn.Conv3d(2, 3, 2, padding=1), normal(2, 3, 4, 3)),
    "conv3d valid": (lambda: nn.Conv3d(2, 3, 2, padding="valid"), normal(2, 3, 4, 3)),
    "conv3d grouped": (lambda: nn.Conv3d(2, 4, 2, groups=2, stride=2), normal(2, 4, 4, 5)),
    "group norm": (lambda: nn.Sequential(nn.Conv2d(3, 6, 3), nn.GroupNorm(2, 6)), normal(3, 5, 5)),
    "channels last": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 6, 3), nn.GroupNorm(2, 6), nn.MaxPool2d(2, 1), nn.Conv2d(6, 4, 2, groups=2)
        ).to(memory_format=torch.channels_last),
        normal(3, 8, 8),
    ),
    "group norm, first": (lambda: nn.GroupNorm(3, 6), normal(6, 4)),
    "layer norm": (lambda: nn.LayerNorm(6), normal(4, 6)),
    "layer norm over two": (lambda: nn.Sequential(nn.Linear(6, 6), nn.LayerNorm((4, 6))), normal(4, 6)),
    "layer norm without bias": (lambda: nn.LayerNorm(6, bias=False), normal(6)),
    "embedding": (lambda: nn.Sequential(nn.Embedding(11, 4), nn.Linear(4, 3)), tokens),
    "embedding, padded": (lambda: nn.Embedding(11, 4, padding_idx=2), tokens),
    "linear twice": (lambda: twice(nn.Linear(6, 6)), normal(3, 6)),
    "conv twice": (lambda: twice(nn.Conv2d(3, 3, 3, padding=1)), normal(3, 5, 5)),
    "group norm twice": (lambda: twice(nn.GroupNorm(2, 4)), normal(4, 5)),
    "tied embedding": (lambda: Weight((11, 4), lambda x, w: F.linear(F.embedding(x, w).tanh(), w)), tokens),
    "attention, batch first": (
        lambda: Called(nn.MultiheadAttention(6, 2, batch_first=True), attention),
        normal(4, 6),
    ),
    "attention, batch second": (
        lambda: Called(nn.MultiheadAttention(6, 2), batch_second(attention)),
        normal(4, 6),
    ),
    "position embedding": (lambda: Beside((1, 4, 6), lambda m, w, x: m(torch.tanh(x + w))), normal(4, 6)),
    "scale": (lambda: Weight((4, 1), lambda x, w: w * x), normal(4, 6)),
    "layer scale": (lambda: Beside((6,), lambda m, w, x: x + w * m(x)), normal(4, 6)),
    "repeated token": (
        lambda: Beside((1, 1, 6), lambda m, w, x: m(torch.cat([w.repeat(len(x), 2, 1), x], 1).tanh())),
        normal(4, 6),
    ),
    # Ways of use that rules refuse, for the fallback to answer:
    "repeated along a longer dimension": (lambda: Weight((2,), lambda x, w: x * w.repeat(3)), normal(6)),
    "repeated over the batch alone": (
        lambda: Weight((2, 3), lambda x, w: x * w.repeat(len(x), 1, 1)),
        normal(2, 3),
    ),
    "repeated over the batch and a longer dimension": (
        lambda: Weight((2,), lambda x, w: x * w.repeat(len(x), 3)),
        normal(6),
    ),
    "added twice": (lambda: Weight((6,), lambda x, w: torch.add(x, w, alpha=2)), normal(6)),
    "added in front": (lambda: Weight((6,), lambda x, w: torch.add(w, x, alpha=2)), normal(6)),
    "taken away": (lambda: Weight((6,), lambda x, w: x - w), normal(6)),
    "its own sum": (lambda: Weight((6,), lambda x, w: x * (w + w)), normal(6)),
    "its own square": (lambda: Weight((6,), lambda x, w: x * (w * w)), normal(6)),
    "times a constant": (lambda: Weight((6,), lambda x, w: x * (w * 2)), normal(6)),
    "a left factor": (lambda: Weight((3, 6), lambda x, w: (w @ x.T).T), normal(6)),
    "a left factor with a bias": (
        lambda: Weight((3, 6), lambda x, w: torch.addmm(x.new_ones(3, len(x)), w, x.T).T),
        normal(6),
    ),
    "a scaled product": (
        lambda: Weight((6, 3), lambda x, w: torch.addmm(x[:, :3], x, w, alpha=2, beta=3)),
        normal(6),
    ),
    "a scaled bias": (
        lambda: Weight((3,), lambda x, w: torch.addmm(w, x, x.new_ones(6, 3), beta=3)),
        normal(6),
    ),
    "transposed and broadcast": (lambda: Weight((3, 2), lambda x, w: x * w.t()), normal(2, 3)),
    "plain matrix product": (lambda: Weight((6, 3), lambda x, w: x @ w), normal(4, 6)),
    "low rank": (LowRank, normal(4, 6)),
    "low rank, square": (lambda: LowRank(6), normal(4, 6)),
    "transposed by mT, square": (lambda: Weight((6, 6), lambda x, w: x @ w.mT), normal(4, 6)),
    "class token": (
        lambda: Beside((1, 1, 6), lambda m, w, x: m(torch.cat([w.expand(len(x), -1, -1), x], 1).tanh())),
        normal(4, 6),
    ),
    "relative position bias": (
        lambda: Weight((5, 2), lambda x, w: (x + w[PLACES].permute(2, 0, 1)).softmax(-1)),
        normal(2, 3, 3),
    ),
    "look-up": (lambda: Beside((11, 6), lambda m, w, x: m(w[x])), tokens),
    "embedding bag": (lambda: nn.EmbeddingBag(11, 4, mode="sum"), tokens),
    "written in Python": (lambda: nn.Sequential(nn.Linear(6, 4), Slope(4)), normal(6)),
    "instance norm": (lambda: nn.InstanceNorm2d(3, affine=True), normal(3, 4, 4)),
    "batch norm, evaluating": (
        lambda: nn.Sequential(nn.Conv1d(3, 4, 2), nn.BatchNorm1d(4)).eval(),
        normal(3, 6),
    ),
    "transposed conv, grouped": (
        lambda: nn.ConvTranspose2d(4, 6, 3, 2, 1, output_padding=1, groups=2, dilation=2),
        normal(4, 4, 3),
    ),
    "scalar parameter": (lambda: Beside((), lambda m, w, x: m(x) * w.exp()), normal(6)),
    "weight norm": (lambda: nn.utils.parametrizations.weight_norm(nn.Linear(6, 5)), normal(6)),
    "LSTM": (lambda: Called(nn.LSTM(6, 4, batch_first=True), lambda m, x: m(x)[0]), normal(5, 6)),
    "GRU": (lambda: Called(nn.GRU(6, 4, batch_first=True), lambda m, x: m(x)[0]), normal(5, 6)),
    "transformer layer": (
        lambda: nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0, batch_first=True),
        normal(4, 6),
    ),
}


# PyTorch's instance norm raises IndexError for an empty batch, so that no losses come of it.
SIZES = [(case, n) for case in CASES for n in (0, 1, 7) if (case, n) != ("instance norm", 0)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("case", "num_examples"), SIZES)
def test_equals_one_backward_per_example(case, num_examples, mode):
    make, sample = CASES[case]
    model, inputs = make(), sample(num_examples)
    axes = probe(model, sample(3))
    for bound in (1e6, 0.3):
        found = clipped_by_engine(model, inputs, bound, mode, axes).grads
        assert_equal(found, clipped_by_definition(model, inputs, bound))
        assert all(parameter.grad is None for parameter in model.parameters())


LEFT_TO_THE_FALLBACK = {
    "repeated over the batch and a longer dimension",
    "added twice",
    "taken away",
    "a left factor",
    "a left factor with a bias",
    "a scaled product",
    "a scaled bias",
    "transposed and broadcast",
    "look-up",
    "written in Python",
    "instance norm",
    "batch norm, evaluating",
}


@pytest.mark.parametrize("case", CASES)
def test_what_has_a_rule_is_not_left_to_the_fallback(case):
    """The fallback is right as well, at the cost of one backward call an example."""
    make, sample = CASES[case]
    assert bool(probe(make(), sample(3)).fallback) == (case in LEFT_TO_THE_FALLBACK)


def test_frozen_parameters_are_left_out():
    model = nn.Sequential(nn.Linear(6, 7), nn.Tanh(), nn.Linear(7, 3))
    model[0].weight.requires_grad_(False)
    inputs = torch.randn(5, 6)
    found = clipped_by_engine(model, inputs, 0.3).grads
    assert set(found) == {"0.bias", "2.weight", "2.bias"}
    assert_equal(found, clipped_by_definition(model, inputs, 0.3))


def test_a_parameter_that_is_not_used_gets_a_zero_sum():
    model = nn.Sequential(nn.Linear(6, 3))
    model.register_parameter("spare", nn.Parameter(torch.ones(4)))
    assert clipped_by_engine(model, torch.randn(5, 6), 1.0).grads["spare"].eq(0).all()


@pytest.mark.usefixtures("where_finite")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", ["linear over positions", "conv2d", "group norm", "attention, batch first"])
@pytest.mark.parametrize("poison", [float("nan"), float("inf"), 1e300])
def test_an_example_that_is_not_finite_contributes_nothing(case, mode, poison):
    make, sample = CASES[case]
    model, inputs = make(), sample(6)
    inputs[2] = poison
    clean = torch.cat([inputs[:2], inputs[3:]])
    axes = probe(model, inputs)
    found = clipped_by_engine(model, inputs, 0.3, mode, axes)
    moved = {n: g - clipped_by_engine(model, clean, 0.3, mode, axes).grads[n] for n, g in found.grads.items()}
    assert length(moved) <= 0.3 * (1 + 1e-9)
    assert all(grad.isfinite().all() for grad in found.grads.values())


def test_where_one_example_may_spoil_another_nothing_is_returned():
    """Without a rule, zero times NaN would make every gradient NaN, and all would contribute nothing."""
    model, inputs = nn.Sequential(nn.Linear(6, 4), Slope(4)), torch.randn(4, 6)
    axes = probe(model, inputs)
    inputs[2] = float("nan")
    with pytest.raises(NonFiniteError, match="SlopeBackward"):
        clipped_by_engine(model, inputs, 0.3, axes=axes)
    alone = clipped_by_engine(model, inputs[2:3], 0.3, axes=axes)
    assert length(alone.grads) == 0.0


def test_a_scalar_loss_is_refused():
    model = nn.Linear(2, 1)
    with pytest.raises(ModelError, match='reduction="none"'):
        clipped_grad_sum(model(torch.randn(3, 2)).sum(), trainable(model), max_grad_norm=1.0)


REFUSED = {
    "written in Python": "SlopeBackward consumes 1.weight",
    "low rank": "consumes",
    "its own sum": "sum of two parameters",
    "its own square": "product of two parameters",
    "times a constant": "spans the batch",
    "added twice": "alpha other than 1",
    "a left factor": "left factor of a matrix product",
    "a left factor with a bias": "left factor of a matrix product",
    "a scaled bias": "alpha or beta other than 1",
    "a scaled product": "alpha or beta other than 1",
    "transposed and broadcast": "transposed parameter that is broadcast",
}
# On (3, 6); those that only a model without a start-up check can be asked.
REFUSED_USES = [
    ((1, 6), lambda x, w: x * w.expand(len(x), 6), "only for models that"),
    ((1, 6), lambda x, w: x * w.repeat(len(x), 1), "only for models that"),
    ((3, 1), lambda x, w: x + w, r"its shape \(3, 1\) spans the batch"),
    ((3, 2, 4), lambda x, w: F.conv1d(w, x.view(3, 2, 3)), "only the weight and bias of a convolution"),
    ((3, 6), lambda x, w: F.layer_norm(w, (6,), x[0]), "only the weight and bias of a layer norm"),
    ((3, 6), lambda x, w: F.layer_norm(x, (3, 6), w), "layer norm within one example"),
    ((3, 6), lambda x, w: F.group_norm(w, 2, x[0]), "only the weight and bias of a group norm"),
    ((11, 4), lambda x, w: F.embedding_bag(x.abs().long(), w, mode="max"), "mode='max'"),
    (
        (3, 6),
        lambda x, w: F.embedding_bag(x.abs().long(), x.new_ones(11, 4), mode="sum", per_sample_weights=w),
        "weights of rows",
    ),
]


@pytest.mark.parametrize(
    ("make", "sample", "words"),
    [(*CASES[case], words) for case, words in REFUSED.items()]
    + [(lambda s=shape, f=use: Weight(s, f), normal(6), words) for shape, use, words in REFUSED_USES],
)
def test_without_a_start_up_check_an_operator_without_a_rule_is_refused_by_name(make, sample, words):
    with pytest.raises(NoRuleError, match=words) as refusal:
        clipped_by_engine(make(), sample(3), 1.0)
    assert "freeze the parameter" in str(refusal.value)


def test_a_parameter_that_reaches_the_loss_without_data_is_refused():
    model = nn.Linear(6, 1)
    with pytest.raises(NoRuleError, match="weight"):
        clipped_by_engine(
            model, torch.randn(3, 6), 1.0, loss=lambda m, x: m(x).squeeze(1) + m.weight.pow(2).sum()
        )


@pytest.mark.parametrize("positions", [1, 2, 10])
def test_in_a_secret_order_terms_that_cancel_count_as_half_as_long_at_least(positions):
    """All of an example's gradient cancels, but for one position of an odd one."""
    torch.manual_seed(0)
    model, half = nn.Linear(3, 2, bias=False), torch.randn(4, positions // 2, 3)
    x = torch.cat([half, -half, torch.randn(4, positions % 2, 3)], 1)
    found = [
        clipped_grad_sum(
            model(x).sum((1, 2)),
            dict(model.named_parameters()),
            max_grad_norm=0.1,
            chooser=KernelChooser(mode="ghost", ordered=one),
            ordered=one,
        )
        for one in (False, True)
    ]
    terms = 2**0.5 * x.norm(dim=2).norm(dim=1)
    expected = terms if positions == 1 else terms / 2
    torch.testing.assert_close(found[1].norms, expected, rtol=1e-4, atol=0)
    assert (found[0].norms <= (1.001 * terms if positions == 1 else 0.01 * terms)).all()
    assert found[1].error == ORDERED_ERROR != found[0].error


def test_lengths_are_rounded_up_before_they_clip(monkeypatch):
    """Sums of squares round so little here that no length shows it (`test_rounding.py` bounds it)."""
    monkeypatch.setattr("fl_dp.engine.clipping.round_up", lambda norms, size, terms: (norms + size) * terms)
    model = nn.Linear(4, 1)
    losses = model(torch.full((1, 4), 2.0)).squeeze(1)
    found = clipped_grad_sum(losses, trainable(model), max_grad_norm=1.0)
    torch.testing.assert_close(length(found.grads), 17**0.5 / (2 * (17**0.5 + 5)))


def test_an_order_needs_a_chooser_that_sees_one_shape_in_all_passes():
    model = nn.Linear(3, 2)
    for chooser, ordered in ((None, True), (KernelChooser(), True), (KernelChooser(ordered=True), False)):
        with pytest.raises(ConfigError, match=f"expected chooser=KernelChooser.ordered={ordered}"):
            clipped_grad_sum(
                model(torch.ones(4, 3)).sum(1),
                dict(model.named_parameters()),
                max_grad_norm=1.0,
                chooser=chooser,
                ordered=ordered,
            )


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("mode", ["ghost", "instantiate"])
def test_an_infinite_gradient_without_a_nan_spoils_no_other(mode, ordered):
    """Its factor is zero, and zero times infinity is not."""
    torch.manual_seed(0)
    model, x = nn.Linear(3, 2), torch.randn(4, 3)
    parameters = dict(model.named_parameters())

    def clipped(rows):
        chooser = KernelChooser(mode=mode, ordered=ordered)
        return clipped_grad_sum(
            model(rows).sum(1), parameters, max_grad_norm=1.0, chooser=chooser, ordered=ordered
        )

    expected = clipped(x[[0, 2, 3]])
    x[1, 0] = torch.inf
    found = clipped(x)
    assert found.num_non_finite == 1
    for name, grad in expected.grads.items():
        torch.testing.assert_close(found.grads[name], grad)
