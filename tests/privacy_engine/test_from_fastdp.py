"""Loops written for fastDP (fast-differential-privacy), changed as docs/migrating.md says."""

import math

import pytest
import torch
import torch.nn.functional as F
from attached import losses_of, small_batch, small_engine, small_model
from definition import gradients, length, trainable
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from twin import Twin

from fl_dp import PrivacyEngine
from fl_dp.errors import ConfigError, ModelError

pytestmark = pytest.mark.filterwarnings("ignore::fl_dp.errors.AssumedSamplingWarning")

RECORDS, BATCH, MINI = 24, 8, 4
STYLES = {"all-layer": [""], "blocks": ["body", "norm", "head"]}


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.norm, self.head = nn.Linear(5, 4), nn.LayerNorm(4), nn.Linear(4, 3)

    def forward(self, x):
        return self.head(self.norm(self.body(x)).tanh().mean(1))


def setting():
    torch.manual_seed(0)
    model = Net().double()
    data = TensorDataset(torch.randn(RECORDS, 2, 5).double(), torch.randint(0, 3, (RECORDS,)))
    return model, data


def automatic_in(blocks):
    """A sum in which each block of a gradient is scaled by C / sqrt(blocks) / (its length + 0.01)."""

    def clipped(model, losses, max_grad_norm):
        total = {name: torch.zeros_like(parameter) for name, parameter in trainable(model).items()}
        for loss in losses:
            grads = gradients(model, loss)
            for block in blocks:
                names = [name for name in grads if name.startswith(block)]
                norm = length({name: grads[name] for name in names})
                for name in names:
                    total[name] += grads[name] * (max_grad_norm / math.sqrt(len(blocks)) / (norm + 0.01))
        return total

    return clipped


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("only_biases", [False, True], ids=["all", "BiTFiT"])
def test_automatic_clipping_in_any_style_with_gradient_accumulation(style, only_biases):
    model, data = setting()
    if only_biases:
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(".bias" in name)
    start = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    twin = Twin(model, clipped=automatic_in(STYLES[style]))
    share = 1.0 / math.sqrt(3)
    options = {
        "all-layer": {"max_grad_norm": 1.0},
        "blocks": {"max_grad_norm": dict.fromkeys(STYLES["blocks"], share)},  # was: clipping_style=[...]
    }[style]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    engine = PrivacyEngine(  # was: with clipping_mode="MixOpt", origin_params=None, and without max_grad_norm
        model,
        batch_size=BATCH,
        sample_size=RECORDS,
        epochs=2,
        target_epsilon=2,
        clipping="automatic",
        generator=torch.Generator().manual_seed(4),
        accounting_mode="rdp",
        origin_params=None,
        **options,
    )
    engine.attach(optimizer)
    by_hand = torch.optim.SGD(twin.model.parameters(), lr=0.05)
    kept = []
    for i, (x, y) in enumerate(DataLoader(data, batch_size=MINI)):
        loss = F.cross_entropy(model(x), y, reduction="none")  # was: the mean
        kept.append((x, y))
        if (i + 1) % (BATCH // MINI) == 0:
            optimizer.step(loss=loss)  # was: loss.backward(), optimizer.step(), optimizer.zero_grad()
            noise = {"batch_size": BATCH, "noise_multiplier": engine.noise_multiplier, "max_grad_norm": 1.0}
            twin.set_grads(losses_of, kept, **noise)
            by_hand.step()
            kept = []
        else:
            optimizer.virtual_step(loss=loss)  # was: loss.backward()
    twin.assert_same(model)
    moved = {name for name, parameter in model.named_parameters() if not torch.equal(parameter, start[name])}
    assert moved == set(trainable(model))
    assert engine.get_privacy_spent(steps=6).epsilon == pytest.approx(2.0, rel=0.01)  # all of 2 epochs
    assert optimizer.get_privacy_spent().steps == engine.steps == 3


@pytest.mark.parametrize(
    ("asked", "words"),
    [({"accounting_mode": "all"}, "accountant is fixed"), ({"lenient": True}, "fails is an error")],
)
def test_another_accountant_is_not_asked_for_afterwards(asked, words):
    model = small_model()
    optimizer = torch.optim.SGD(model.parameters())
    small_engine(model, noise_multiplier=1.0).attach(optimizer)
    with pytest.raises(ConfigError, match=words):
        optimizer.get_privacy_spent(**asked)
    with pytest.raises(TypeError, match="get_privacy_spent got an unexpected keyword argument 'step'"):
        optimizer.get_privacy_spent(step=3)


def test_a_loop_that_still_calls_backward_is_told_what_a_step_takes():
    model = small_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    small_engine(model, noise_multiplier=1.0).attach(optimizer)
    x, y = small_batch()
    F.cross_entropy(model(x), y).backward()
    with pytest.raises(TypeError, match="needs loss=, the losses per example"):
        optimizer.step()
    with pytest.raises(ModelError, match=r'one per example \(reduction="none"\), got'):
        optimizer.step(loss=F.cross_entropy(model(x), y))
    assert torch.equal(model[0].weight, small_model()[0].weight)
