"""Kernels can be read and fixed by hand, and the physical batch chosen for a memory."""

import re

import pytest
import torch
import torch.nn.functional as F
from attached import attached, losses_of, small_batch, small_engine, small_model, without_noise
from structured import Called
from torch import nn

from fl_dp.errors import ConfigError, ProbeError

MIB = 2**20
TITLES = "parameter layout T p d norm kernel decided ms next best ms KiB kept"


def _conv_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(64, 3))


def _images(n=12):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(n, 1, 6, 6, generator=generator), torch.randint(0, 3, (n,), generator=generator)


def test_the_kernel_table_is_printed_in_the_models_order(capsys):
    model, optimizer, engine = attached(_conv_model())
    with pytest.raises(ConfigError, match="no kernel table before the first step"):
        engine.kernel_table()
    assert capsys.readouterr().out == ""
    optimizer.step(loss=losses_of(model, *_images()))
    assert engine.kernel_table() is None
    titles, *lines = capsys.readouterr().out.splitlines()
    assert titles.split() == TITLES.split()
    assert [line.split()[0] for line in lines] == ["0.weight", "0.bias", "3.weight", "3.bias"]
    assert re.match(r"0\.weight +conv +16 +4 +9 +(ghost|instantiated) ", lines[0])
    assert re.match(r"3\.weight +outer +1 +3 +64 +ghost +ghost +formula +- ", lines[2])


def test_an_unknown_parameter_or_kernel_is_refused_before_anything_is_trained():
    with pytest.raises(
        ConfigError, match=r"0\.weigth is not a parameter that is trained; they are 0\.weight"
    ):
        small_engine(small_model(), noise_multiplier=1.0, kernels={"0.weigth": "ghost"})
    model, optimizer, engine = attached(kernels={"0.weight": "instantiate-patches"})
    with pytest.raises(ConfigError, match=r"0\.weight has no kernel 'instantiate-patches'"):
        optimizer.step(loss=losses_of(model, *small_batch()))
    assert engine.steps == 0
    for parameter, start in zip(model.parameters(), small_model().parameters(), strict=True):
        assert torch.equal(parameter, start)


def _with_dropout():
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(6, 64), nn.Tanh(), nn.Dropout(0.5), nn.Linear(64, 3))
    return Called(layers, lambda m, *, tokens, scale: m(tokens) * scale)


def test_choosing_the_physical_batch_leaves_no_trace():
    """Of two engines in the same state one chooses; both then take the same step, noise and dropout too."""
    x, y = small_batch()
    inputs, ends = {"tokens": x, "scale": torch.tensor(0.5)}, []
    for choose in (False, True):
        generator = torch.Generator().manual_seed(3)
        model, optimizer, engine = attached(_with_dropout(), torch.optim.Adam, generator=generator)

        def losses(inputs, y, model=model):
            return F.cross_entropy(model(**inputs), y, reduction="none")

        first, *_, last = model.parameters()
        first.grad = torch.ones_like(first)
        torch.manual_seed(5)
        optimizer.virtual_step(loss=losses(inputs, y))
        if choose:
            size = engine.largest_physical_batch(losses, inputs, y, memory=MIB)
            assert size == 20  # twice the expected batch
            assert engine.steps == 0
            assert torch.equal(first.grad, torch.ones_like(first))
            assert last.grad is None
        optimizer.step(loss=losses(inputs, y))
        ends.append((list(model.parameters()), engine.get_training_stats()))
    assert all(torch.equal(a, b) for a, b in zip(ends[0][0], ends[1][0], strict=True))
    assert ends[0][1] == ends[1][1]


def test_the_physical_batch_grows_with_the_memory_also_without_attach():
    model = nn.Sequential(nn.Linear(6, 1000), nn.Tanh(), nn.Linear(1000, 3))
    engine = without_noise(model, batch_size=500, sample_size=1000)
    sizes = [
        engine.largest_physical_batch(
            lambda x, y: losses_of(model, x, y), *small_batch(3), memory=int(memory * MIB)
        )
        for memory in (1, 2, 4)
    ]
    assert 1 <= sizes[0] < sizes[1] < sizes[2] <= 1000
    # hidden layer, its tanh and gradients: 8 to 24 KiB an example, and a margin of 1.8
    assert 2 * MIB / 1.8 / (24 * 1024) <= sizes[2] - sizes[1] <= 2 * MIB / 1.8 / (8 * 1024)


def test_what_cannot_be_chosen_says_why():
    x, y = small_batch()
    for model, words in (
        (small_model(), "locked"),
        (nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3)), "buffer"),
    ):
        _, _, engine = attached(model)
        if words == "locked":
            engine.lock()
        with pytest.raises((ConfigError, ProbeError), match=words):
            engine.largest_physical_batch(lambda x, y, model=model: losses_of(model, x, y), x, y, memory=MIB)
        assert not engine.steps
