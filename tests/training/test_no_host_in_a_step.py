"""A private step on a device never waits for it: nothing is read back, and no shape depends on numbers.

It runs on PyTorch's "meta" device, whose tensors have shapes but no numbers, so that whatever needs a number
raises. Kernels of Triton, which only write into tensors that are there, are not run.

What may read the device is left out here: the comparison of owners, once for each graph (for models that
move rows by data in every pass); the search of one batch in 50 for examples that mix; the choice of kernels
and rows before the payment; and an adaptive clipping bound, which is the noised count of the step before.
"""

from dataclasses import replace

import pytest
import torch
from objectives import objective_for
from torch import nn
from trainers import CPU, plan_of, trainer_for

from fl_dp.data.tensor_data import TensorData
from fl_dp.engine.kernel_choice.chooser import KernelChooser
from fl_dp.engine.noise import gaussian
from fl_dp.engine.tracing.ownership import OwnerCheck
from fl_dp.training import clipping_bound
from fl_dp.training.examples import axes_of
from fl_dp.training.mixing_watch import MixingWatch
from fl_dp.training.private import PrivateTrainer

triton = pytest.importorskip("triton")

META = torch.device("meta")
PLAN = plan_of(momentum=0.9)
PLANS = {
    "sgd": PLAN,
    "adam": replace(PLAN, optimizer="adam", momentum=0.0),
    "adaptive": replace(PLAN, adaptive_clipping="quantile:0.5"),
}


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(30, 16), nn.Linear(16, 3)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)

    def forward(self, words):
        return self.head(self.layer(self.embedding(words)).mean(1))


MODELS = {
    "linear": lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 3)),
    "positions": lambda: nn.Sequential(nn.Flatten(1, 2), nn.Linear(8, 16), nn.Flatten(), nn.Linear(128, 3)),
    "convolutions": lambda: nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.Tanh(), nn.Conv2d(4, 8, 3, stride=2, groups=2),
        nn.Flatten(), nn.LayerNorm(32), nn.Linear(32, 3),
    ),
    "words": Words,
}  # fmt: skip


def _data(name):
    x = torch.randint(0, 30, (40, 12)) if name == "words" else torch.randn(40, 1, 8, 8)
    return TensorData(x, torch.arange(40) % 3, ("a", "b", "c"), vocabulary=30 * (name == "words"))


@pytest.fixture
def on_meta(monkeypatch):
    """Makes a trainer on "meta" whose kernels were chosen on the CPU."""
    monkeypatch.setattr(triton.runtime.JITFunction, "__getitem__", lambda self, grid: lambda *a, **k: None)
    monkeypatch.setattr(gaussian, "_on_one_gpu", lambda numbers: True)
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda device: False)  # it does not know "meta"
    monkeypatch.setattr(OwnerCheck, "begin", lambda *a: None)
    monkeypatch.setattr(MixingWatch, "look", lambda *a: False)
    monkeypatch.setattr(clipping_bound, "_read", lambda count: 0.0)

    def make(model, plan, data):
        objective = objective_for(data.form)
        axes = axes_of(model, objective, CPU)
        chosen = trainer_for(model, objective, plan)
        chosen.rehearse(8)
        chooser = KernelChooser(fixed=chosen.kernels)
        return PrivateTrainer(model.to(META), axes, plan, objective, device=META, chooser=chooser)

    return make


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", MODELS)
def test_a_step_reads_nothing_from_the_device(name, plan, on_meta, caplog):
    data = _data(name)
    trainer = on_meta(MODELS[name](), PLANS[plan], data)
    before = {name: p.clone() for name, p in trainer._passes.parameters.items()}
    for _ in range(2):
        trainer.step(data, 0.5, 8)
    assert not caplog.messages  # an example that raises contributes nothing, and is logged
    assert trainer._passes.parameters.keys() == before.keys()


READS = {
    "item": lambda x: x.sum().item(),
    "bool": lambda x: bool(x.sum() > 0),
    "tolist": lambda x: x.tolist(),
    "cpu": lambda x: x.cpu(),
    "to": lambda x: x.to("cpu"),
    "numpy": lambda x: x.numpy(),
    "copy": lambda x: torch.empty(x.shape).copy_(x),
    "nonzero": lambda x: x.nonzero(),
    "mask": lambda x: x[x > 0],
    "select": lambda x: x.masked_select(x > 0),
    "unique": lambda x: x.unique(),
    "repeat": lambda x: x.repeat_interleave(x.long().abs()),
    "equal": lambda x: torch.equal(x, x),
    "where": lambda x: torch.where(x > 0),
}


@pytest.mark.parametrize("read", READS)
def test_each_kind_of_read_is_seen(read, on_meta, monkeypatch, caplog):
    """Planted in the model's forward pass and in what happens to the noise."""
    data = _data("linear")

    class Reading(nn.Sequential):
        def forward(self, x):
            if x.is_meta:
                READS[read](x.flatten())
            return super().forward(x)

    trainer = on_meta(Reading(nn.Flatten(), nn.Linear(64, 3)), PLAN, data)
    trainer.step(data, 0.5, 8)
    assert "an example contributes nothing" in caplog.text
    trainer = on_meta(MODELS["linear"](), PLAN, data)
    monkeypatch.setattr(
        trainer.bound, "descended", lambda noisy: [READS[read](one.flatten()) for one in noisy.values()]
    )
    with pytest.raises((RuntimeError, NotImplementedError, TypeError)):
        trainer.step(data, 0.5, 8)
