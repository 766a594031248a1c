"""What the engine cannot protect is found at the start, on synthetic inputs, however it is spelt."""

import pytest
import torch
from torch import Tensor, nn

from fl_dp.engine.backward import Axes
from fl_dp.engine.clipping import clipped_grad_sum
from fl_dp.engine.gradients.layouts import Dense
from fl_dp.engine.probe import _Trial, probe
from fl_dp.engine.rule import Rule
from fl_dp.engine.rule_table import RULES
from fl_dp.engine.tracing.axis import BatchAxis
from fl_dp.engine.tracing.capture import UseKey
from fl_dp.errors import ModelError, NoRuleError, ProbeError


class HomemadeBatchNorm(nn.Module):
    """Subtracts the batch's mean, hidden from the gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.linear(x)
        return y - y.mean(0).detach()


class RemembersData(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        self.mean.copy_(x.mean(0).detach())
        return self.linear(x)


class MixesRows(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x + x.roll(1, 0))


class BatchSecond(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x.transpose(0, 1).contiguous()).transpose(0, 1)


def test_finds_the_batch_axis_of_every_use():
    axes = probe(BatchSecond(), torch.randn(5, 7, 4))
    assert set(axes.batch.values()) == {BatchAxis(0, minor=True)}  # T = 7
    assert {key.parameters[0] for key in axes.batch} == {"linear.weight", "linear.bias"}


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (nn.BatchNorm1d(4, affine=False), r"buffer 1\.running_mean"),
        (nn.BatchNorm1d(4, affine=False, track_running_stats=False), "depends on another example"),
        (HomemadeBatchNorm(), "depends on another example"),
        (MixesRows(), "depends on another example"),
        (RemembersData(), r"buffer 1\.mean"),
    ],
)
def test_examples_that_influence_one_another_are_refused(model, words):
    model = nn.Sequential(nn.Linear(4, 4), model)
    with pytest.raises(ProbeError, match=words):
        probe(model, torch.randn(5, 4))


def test_batch_norm_in_evaluation_mode_is_fine_because_its_statistics_stand_still():
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).eval()
    assert {key.parameters[0] for key in probe(model, torch.randn(5, 4)).fallback} == {"1.weight", "1.bias"}


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this PyTorch has no fused LSTM on CPUs")
def test_a_fused_operator_of_several_outputs_is_refused_by_name():
    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(4, 3, batch_first=True)

        def forward(self, x):
            return self.lstm(x)[0]

    with pytest.raises(NoRuleError, match=r"RnnLayer consumes lstm\.weight_ih_l0, .* freeze the parameter"):
        probe(Recurrent(), torch.randn(5, 2, 4))


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

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4))

        def forward(self, x):
            return Power.apply(2, x, self.weight)

    with pytest.raises(NoRuleError, match=r"Power.* \(parameter weight\): .* not tensors.* freeze"):
        probe(Model(), torch.randn(5, 4))


def test_layers_behind_a_zero_initialised_one_are_seen():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    nn.init.zeros_(model[1].weight)
    assert {key.parameters[0] for key in probe(model, torch.randn(5, 4)).batch} == {
        "0.weight", "0.bias", "1.weight", "1.bias",
    }  # fmt: skip


def test_dropout_is_fine_because_its_masks_do_not_depend_on_data():
    assert probe(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 2)), torch.randn(5, 4))


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


def test_an_output_without_one_row_an_example_is_refused():
    with pytest.raises(ModelError, match=r"shape \(3, \.\.\.\)"):
        probe(nn.Sequential(nn.Linear(4, 2), nn.Flatten(0)), torch.randn(5, 4))


class Masked(nn.Module):
    """Attention whose queries and keys get no gradient where all but one position is left out."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.attention(x, x, x, key_padding_mask=mask)[0]


def test_masks_hide_no_use():
    """In PyTorch's mask true leaves out: if all of it were, any layout would have seemed to fit."""
    axes = probe(Masked(), torch.randn(5, 4, 4), torch.zeros(5, 4, dtype=torch.bool))
    weights = {key.parameters[0]: axis for key, axis in axes.batch.items() if key.operator == "MmBackward0"}
    assert weights == {"attention.in_proj_weight": BatchAxis(0, minor=True)}


def test_a_layout_that_one_row_an_example_did_not_show_is_refused_later():
    """(N, 1) and (1, N) look alike; what is (T, N) later must not be taken for (N, T)."""
    model = BatchSecond()
    axes = probe(model, torch.randn(5, 1, 4))
    losses = model(torch.randn(6, 1, 4)).sum((1, 2))
    clipped_grad_sum(losses, dict(model.named_parameters()), max_grad_norm=1.0, axes=axes)
    losses = model(torch.randn(6, 2, 4)).sum((1, 2))
    with pytest.raises(ProbeError, match="checked with one"):
        clipped_grad_sum(losses, dict(model.named_parameters()), max_grad_norm=1.0, axes=axes)


def test_a_use_that_matters_to_no_loss_is_refused():
    class Nothing(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.other = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            return self.one(x) + 0 * self.other(x)

    with pytest.raises(ProbeError, match=r"other\.\w+\): in 4 synthetic batches .* freeze the parameter"):
        probe(Nothing(), torch.randn(5, 2, 4))


def test_an_example_that_moves_only_the_one_before_it_is_seen():
    class Shifted(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 3)

        def forward(self, x):
            return self.linear(x + torch.cat([x[1:], torch.zeros_like(x[:1])]))

    with pytest.raises(ProbeError, match="depends on another example"):
        probe(Shifted(), torch.randn(5, 4))


def test_a_model_that_remembers_data_outside_its_buffers_is_refused():
    class Carries(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.state = nn.Linear(4, 3), torch.zeros(3, 3)

        def forward(self, x):
            y = self.linear(x) + self.state
            self.state = y.detach()
            return y

    with pytest.raises(ProbeError, match="remembers data of earlier batches"):
        probe(Carries(), torch.randn(5, 4))


@pytest.mark.parametrize("layer", [nn.Embedding, nn.EmbeddingBag])
def test_gradients_divided_by_what_the_whole_batch_holds_are_refused(layer):
    """One example's words would move the gradients of all others with the same words."""
    with pytest.raises(ModelError, match=r"scale_grad_by_freq.*whole batch"):
        probe(layer(11, 4, scale_grad_by_freq=True), torch.ones(5, 3, dtype=torch.int64))


def test_examples_that_meet_in_the_gradients_alone_are_refused():
    class Detached(nn.Module):
        """What it adds and takes away cancels in the outputs, not in the gradients."""

        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 3)

        def forward(self, x):
            mean = x.mean(0).expand_as(x)
            return self.linear(x) + self.linear(mean) - self.linear(mean).detach()

    with pytest.raises(ProbeError, match="depends on another example"):
        probe(nn.Sequential(Detached(), nn.Tanh()), torch.randn(5, 4))


def test_any_structure_of_inputs_and_outputs():
    class Nested(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.linear = nn.Embedding(11, 4), nn.Linear(4, 3)
            self.temperature = nn.Parameter(torch.ones(1))

        def forward(self, batch, *, mask, flag):
            assert flag is None
            x = self.table(batch["ids"]) + batch["more"][0]
            return {"y": (self.linear(x) * mask,), "temperature": self.temperature, "none": None}

    batch = {"ids": torch.zeros(5, 2, dtype=torch.int64), "more": [torch.randn(5, 2, 4)]}
    axes = probe(Nested(), batch, mask=torch.ones(2, 3), flag=None)
    assert {key.parameters[0] for key in axes.batch} == {"table.weight", "linear.weight", "linear.bias"}


def test_an_output_that_depends_on_data_but_has_no_row_for_each_example_is_refused():
    class OwnLoss(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 3)

        def forward(self, x):
            return {"logits": self.linear(x), "loss": self.linear(x).mean()}

    with pytest.raises(ModelError, match=r"output \['loss'\] has shape \(\)\. Return what"):
        probe(OwnLoss(), torch.randn(5, 4))


def test_a_model_that_makes_nan_is_refused():
    class Root(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 3)

        def forward(self, x):
            return self.linear(x.sqrt())

    with pytest.raises(ModelError, match="holds NaN for synthetic examples"):
        probe(Root(), torch.rand(5, 4))


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


def test_a_model_without_an_output_that_depends_on_a_parameter_is_refused():
    class Fixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4))

        def forward(self, x):
            return x * 2

    with pytest.raises(ModelError, match="No output of the model depends on a trainable parameter"):
        probe(Fixed(), torch.randn(5, 4))


KEY, OTHER = (UseKey("MmBackward0", 1, (name,)) for name in ("one", "other"))
SEEN = _Trial(Axes({KEY: BatchAxis()}))
MORE = _Trial(Axes({OTHER: BatchAxis(1)}, frozenset({frozenset({KEY})}), frozenset({OTHER})), settled=True)
HIDDEN = _Trial(Axes({}), (OTHER,))


@pytest.mark.parametrize(
    ("trials", "found", "tried"),
    [
        ([MORE], {OTHER}, 1),
        ([SEEN, MORE], {KEY, OTHER}, 2),
        ([HIDDEN, MORE], {OTHER}, 2),
        ([SEEN, HIDDEN, HIDDEN, HIDDEN], {KEY}, 4),
        ([HIDDEN, HIDDEN, HIDDEN, SEEN], {KEY}, 4),
    ],
)
def test_what_several_synthetic_batches_show_is_joined_until_it_is_settled(trials, found, tried, monkeypatch):
    attempts = []

    def scripted(model, args, kwargs, shared, attempt):
        attempts.append(attempt)
        return trials[attempt]

    monkeypatch.setattr("fl_dp.engine.probe._try", scripted)
    axes = probe(nn.Linear(4, 2), torch.randn(5, 4))
    assert (set(axes.batch), attempts) == (found, list(range(tried)))
    if trials[-1] is MORE:
        assert (axes.shared, axes.fallback) == (MORE.axes.shared, MORE.axes.fallback)


def test_a_use_that_every_synthetic_batch_hides_is_refused(monkeypatch):
    monkeypatch.setattr("fl_dp.engine.probe._try", lambda *_: HIDDEN)
    with pytest.raises(ProbeError, match=r"parameter other\): in 4 synthetic batches some example's loss"):
        probe(nn.Linear(4, 2), torch.randn(5, 4))


class _LastOfLSTM(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.lstm = nn.Linear(6, 6), nn.LSTM(6, 4, batch_first=True)

    def forward(self, x):
        return self.lstm(self.first(x))[0][:, -1]


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="PyTorch was built without oneDNN")
def test_a_fused_recurrent_layer_is_refused_with_what_serves_in_its_place(monkeypatch):
    with pytest.raises(NoRuleError, match=r"take nn\.GRU, nn\.LSTMCell or opacus\.layers\.DPLSTM"):
        probe(_LastOfLSTM(), torch.zeros(0, 5, 6))
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
    assert probe(_LastOfLSTM(), torch.zeros(0, 5, 6)).batch
