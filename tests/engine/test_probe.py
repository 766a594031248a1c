"""What the engine cannot protect is found at the start, on synthetic inputs, however it is spelt."""

import pytest
import torch
from torch import Tensor, nn

from fl_dp.engine.axis import BatchAxis
from fl_dp.engine.probe import probe
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
    assert set(axes.batch.values()) == {BatchAxis(0, minor=True)}
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
