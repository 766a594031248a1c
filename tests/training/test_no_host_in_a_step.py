"""A private step on a device never waits for it: nothing is read back, and no shape depends on numbers.

It runs on PyTorch's "meta" device, whose tensors have shapes but no numbers, so that whatever needs a number
raises. `Waits` raises for what is silent there and waits on a GPU. Kernels of Triton, which only write into
tensors that are there, are not run.

What may wait is left out here, and listed in docs/gpu.md.
"""

from dataclasses import replace

import pytest
import torch
from objectives import objective_for
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from trainers import CPU, plan_of, trainer_for

from fl_dp.data.tensor_data import TensorData
from fl_dp.engine.noise import device, gaussian
from fl_dp.engine.tracing.mixing import MixingWatch
from fl_dp.engine.tracing.ownership import OwnerCheck
from fl_dp.training.examples import axes_of
from fl_dp.training.private import PrivateTrainer

triton = pytest.importorskip("triton")

META = torch.device("meta")
PLAN = plan_of(momentum=0.9)
PLANS = {
    "sgd": PLAN,
    "adam": replace(PLAN, optimizer="adam", momentum=0.0),
    "automatic": replace(PLAN, clipping="automatic"),
}


class WaitError(RuntimeError):
    """The host would wait for a GPU here."""


class Waits(TorchDispatchMode):
    """Raises for operators that would wait, though "meta" needs no number for them.

    A copy from the host waits, unless it is told not to and comes from pinned memory, or is small (64 KiB for
    CUDA; here 512 bytes, because these batches are small). Values of the host, as of `torch.tensor`, are such
    copies, and so are its indices. A mask as an index is counted first.
    """

    def __init__(self):
        super().__init__()
        self._pinned = []  # tensors, so that their memory is not used again

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs, name = dict(kwargs or {}), func.overloadpacket.__name__
        pinned = kwargs.pop("pin_memory", None)  # there is none without a GPU
        made = func(*args, **kwargs)
        if pinned:
            self._pinned.append(made)
        on_device = any(isinstance(one, torch.Tensor) and one.is_meta for one in tree_leaves((made, args)))
        indices = [one for one in args[1] if one is not None] if name in ("index", "index_put_") else ()
        if on_device and (
            name in ("lift_fresh", "histc")
            or any(not one.is_meta or one.dtype == torch.bool for one in indices)
            or (name == "_to_copy" and self._is_slow(args[0], kwargs.get("non_blocking")))
            or (name == "copy_" and self._is_slow(args[1], kwargs.get("non_blocking") or args[2:] == (True,)))
        ):
            raise WaitError(name)
        return made

    def _is_slow(self, source, non_blocking):
        if source.is_meta:
            return False
        is_pinned = any(source.data_ptr() == one.data_ptr() for one in self._pinned)
        return not (non_blocking and (is_pinned or source.nbytes <= 2**9))


def wait(*_):
    raise WaitError


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
        nn.Conv2d(1, 4, 3),
        nn.GroupNorm(2, 4),
        nn.Tanh(),
        nn.Conv2d(4, 8, 3, stride=2, groups=2),
        nn.Flatten(),
        nn.LayerNorm(32),
        nn.Linear(32, 3),
    ),
    "words": Words,
}


def _data(name):
    x = torch.randint(0, 30, (40, 12)) if name == "words" else torch.randn(40, 1, 8, 8)
    return TensorData(x, torch.arange(40) % 3, ("a", "b", "c"), vocabulary=30 * (name == "words"))


@pytest.fixture
def on_meta(monkeypatch):
    """Makes a trainer on "meta" whose kernels were chosen on the CPU."""
    monkeypatch.setattr(triton.runtime.JITFunction, "__getitem__", lambda self, grid: lambda *a, **k: None)
    monkeypatch.setattr(gaussian, "has_triton", lambda device: True)
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda device: False)  # it does not know "meta"
    monkeypatch.setattr(OwnerCheck, "begin", lambda *a: None)
    monkeypatch.setattr(MixingWatch, "look", lambda *a: False)
    for owner in (torch.cuda, torch.cuda.Event, torch.cuda.Stream):
        monkeypatch.setattr(owner, "synchronize", wait)
    device._tables(META)  # sent once

    return lambda model, plan, data: made_on(META, model, plan, data)


def made_on(device, model, plan, data):
    objective = objective_for(data.form)
    axes = axes_of(model, objective, CPU)
    chosen = trainer_for(model, objective, plan)
    chosen.rehearse(8)
    chosen.use_kernels(chosen.kernels)
    chosen.declare_shapes()
    return PrivateTrainer(
        model.to(device), axes, plan, objective, device=device, chooser=chosen._passes.chooser
    )


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", MODELS)
def test_a_step_reads_nothing_from_the_device(name, plan, on_meta, caplog):
    data = _data(name)
    trainer = on_meta(MODELS[name](), PLANS[plan], data)
    before = {name: p.clone() for name, p in trainer._passes.parameters.items()}
    with Waits():
        for _ in range(2):
            trainer.step(data, 0.5, 8)
    assert not caplog.messages  # an example that raises contributes nothing, and is logged
    assert trainer._passes.parameters.keys() == before.keys()


@pytest.mark.parametrize(
    "kind",
    ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))],
)
@pytest.mark.parametrize("name", MODELS)
def test_a_gpu_is_waited_for_in_no_step_but_the_first(name, kind, monkeypatch, caplog):
    """By PyTorch's own watch. The first step compiles kernels and compares owners."""
    monkeypatch.setattr(MixingWatch, "look", lambda *a: False)
    data = _data(name)
    trainer = made_on(torch.device(kind), MODELS[name](), PLAN, data)
    trainer.step(data, 0.5, 8)
    if kind == "cuda":
        torch.cuda.set_sync_debug_mode("error")
    try:
        trainer.step(data, 0.5, 8)
    finally:
        if kind == "cuda":
            torch.cuda.set_sync_debug_mode("default")
    assert not caplog.messages


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
    "masked write": lambda x: x.detach().index_put_((x > 0,), x.detach()),
    "count": lambda x: x.long().bincount(),
    "range": lambda x: x.detach().histc(),
    "send": lambda x: torch.zeros(3).to(x.device),
    "send into": lambda x: x.detach().clone().copy_(torch.zeros(x.shape)),
    "send much": lambda x: torch.zeros(200).to(x.device, non_blocking=True),
    "values": lambda x: torch.tensor([1.0, 2.0], device=x.device),
    "index": lambda x: x[torch.tensor([0])],
    "synchronize": lambda x: torch.cuda.synchronize(),
    "event": lambda x: torch.cuda.Event().synchronize(),
    "stream": lambda x: torch.cuda.Stream.synchronize(None),
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
    with Waits():
        trainer.step(data, 0.5, 8)
    assert "an example contributes nothing" in caplog.text
    trainer = on_meta(MODELS["linear"](), PLAN, data)
    monkeypatch.setattr(
        trainer.algorithm, "corrected", lambda sums, batch: [READS[read](one.flatten()) for one in sums]
    )
    with Waits(), pytest.raises((RuntimeError, NotImplementedError, TypeError)):
        trainer.step(data, 0.5, 8)
