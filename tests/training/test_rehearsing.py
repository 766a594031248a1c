"""`memory-mib` as a bound: a trainer takes other kernels if a pass does not fit, and rows that do."""

import logging

import pytest
import torch
from torch import nn
from trainers import CPU, plan_of, trainer_for

from fl_dp.data.tensor_data import TensorData
from fl_dp.engine.kernel_choice import physical_batch
from fl_dp.engine.kernel_choice.memory import peak_bytes
from fl_dp.training.rehearsing import quickest_rows

ROWS = 32


def _cnn():
    """Its middle layer's gradients are 2.3 MiB for 32 examples: kernels are tried, and memory counts."""
    torch.manual_seed(0)
    convolutions = nn.Conv2d(3, 32, 1), nn.Tanh(), nn.Conv2d(32, 64, 3, padding=1), nn.Tanh()
    return nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(64 * 64, 3))


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(60, 3, 8, 8, generator=generator)
    return TensorData(x, torch.arange(60) % 3, ("a", "b", "c"))


@pytest.fixture
def trainer(data):
    made = trainer_for(_cnn(), data, plan_of(expected_batch_size=24), key=bytes(32))
    made.rehearse(ROWS)
    return made


CHOSEN, LEAST = "instantiate-patches", "ghost-matmul"


def _measured(trainer):
    """The layer in question, and a chooser that has chosen CHOSEN for it, whatever the machine."""
    chooser = trainer._passes.chooser
    (row,) = [row for row in chooser.rows if row.kept]
    assert row.kept[LEAST] < row.kept[CHOSEN]
    object.__setattr__(row, "kernel", CHOSEN)
    return row.parameter, chooser


def _fit(trainer, chooser, memory):
    """The kernels of passes after the trainer was fitted, from what `chooser` knows."""
    trainer._passes.chooser = chooser
    trainer.fit_kernels(memory, ROWS)
    kernels = dict(trainer.kernels)
    trainer.rehearse(ROWS)
    assert trainer.kernels == kernels
    return kernels


def _peak(trainer):
    return peak_bytes(lambda: trainer.rehearse(ROWS), CPU)


def test_with_less_memory_the_kernels_that_keep_least_and_they_do_fit(trainer, monkeypatch):
    monkeypatch.setattr(physical_batch, "_CPU_MARGIN", 1.0)
    name, chooser = _measured(trainer)
    assert _fit(trainer, chooser, 2**30)[name] == CHOSEN
    room = _peak(trainer) - 1
    assert _fit(trainer, chooser, room)[name] == LEAST
    assert _peak(trainer) <= room


def test_the_margin_is_kept(trainer):
    name, chooser = _measured(trainer)
    _fit(trainer, chooser, 2**30)
    assert _fit(trainer, chooser, _peak(trainer))[name] == LEAST


def test_where_nothing_fits_the_least_and_a_warning(trainer, caplog):
    name, chooser = _measured(trainer)
    with caplog.at_level(logging.WARNING, "fl_dp"):
        _fit(trainer, chooser, 2**30)
        assert not caplog.text
        assert _fit(trainer, chooser, 1) == chooser.kernels | {name: LEAST}
    assert "memory-mib = 0" in caplog.text


def test_where_memory_runs_out_the_kernels_that_keep_least(trainer, monkeypatch):
    name, chooser = _measured(trainer)
    rehearse = trainer.rehearse

    def runs_out(size):
        if trainer._passes.chooser.fixed.get(name) == CHOSEN:
            raise torch.OutOfMemoryError("out of memory")
        return rehearse(size)

    monkeypatch.setattr(trainer, "rehearse", runs_out)
    assert _fit(trainer, chooser, 2**30)[name] == LEAST


def test_other_kernels_give_the_same_sum(trainer, data):
    """Up to rounding: kernels are a matter of time and memory alone."""
    name, chooser = _measured(trainer)
    sums, kernels = [], []
    for memory in (2**30, 1):
        kernels.append(_fit(trainer, chooser, memory)[name])
        batch = trainer.examples(data, torch.arange(20))
        sums.append(trainer.clipped.sum_of_pass(batch, ROWS).grads)
    assert kernels[0] != kernels[1]
    for one, other in zip(sums[0].values(), sums[1].values(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6, check_dtype=False)


@pytest.mark.parametrize(("there", "found"), [(20, {8, 16}), (0, {8})])
def test_rows_are_halved_where_memory_runs_out(there, found):
    """There is no choice among a few; whether they fit is found when kernels are fitted."""
    asked = []

    def rehearse(size):
        asked.append(size)
        if size > there:
            raise torch.OutOfMemoryError("out of memory")

    assert quickest_rows(rehearse, 100, 64, CPU) in found
    assert asked[:3] == [64, 32, 16]
    with pytest.raises(ZeroDivisionError):  # what is no want of memory is told
        quickest_rows(lambda size: 1 // 0, 100, 64, CPU)
