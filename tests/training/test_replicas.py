"""Several devices give the bits of one, and devices that do not are refused. Here each device is the CPU."""

from functools import partial

import pytest
import torch
from torch import nn
from trainers import CPU, plan_of, trainer_for

from fl_dp.errors import UnsteadyError


def model_of():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Dropout(0.3), nn.Linear(8, 3))


def trainer_on(number, data, **changes):
    plan = plan_of(momentum=0.9, expected_batch_size=60, **changes)
    return trainer_for(model_of(), data, plan, key=bytes(32), more_devices=[CPU] * (number - 1))


@pytest.mark.parametrize("number", [2, 3, 4])
def test_any_number_of_devices_leaves_the_same_bits(data, number):
    alone, together = trainer_on(1, data), trainer_on(number, data)
    for rate in (0.6, 1e-9, 0.6, 0.3):  # the second draw is empty
        for trainer in (alone, together):
            trainer.step(data, rate, 8)
    assert torch.equal(
        *(nn.utils.parameters_to_vector(t._passes.model.parameters()) for t in (alone, together))
    )


def test_passes_are_dealt_out_in_turn(data, monkeypatch):
    trainer, seen = trainer_on(3, data), []
    monkeypatch.setattr(trainer._watch, "look", lambda *_: False)  # which calls the first model once more
    for place, passes in enumerate(trainer.clipped.replicas.all):
        passes.model.register_forward_hook(lambda *_, place=place: seen.append(place))
    trainer._clipped_sum(data, torch.arange(40), 8)
    assert sorted(seen[:5]) == [0, 0, 1, 1, 2], seen  # threads: in any order


def test_an_example_that_raises_leaves_every_copy_as_it_was(data):
    trainer = trainer_on(2, data)
    for passes in trainer.clipped.replicas.all:
        passes.model.eval()
    trainer.clipped._tried(partial(int, "a record's"))
    assert all(passes.model.training for passes in trainer.clipped.replicas.all)


class Elsewhere(nn.Module):
    """Does to its input what a device does with which something is wrong."""

    does = staticmethod(lambda x: x)

    def forward(self, x):
        return self.does(x)


def with_a_second(does, data):
    """A trainer on two devices, of which the second `does` so."""
    trainer = trainer_for(nn.Sequential(Elsewhere(), nn.Linear(5, 3)), data, plan_of(), more_devices=[CPU])
    trainer.clipped.replicas.copies[0].model[0].does = does
    return trainer


@pytest.mark.parametrize("rows", [1, 8])
def test_devices_that_round_differently_are_refused_before_a_payment(rows, data):
    trainer = with_a_second(lambda x: x, data)
    trainer.rehearse(rows)
    trainer.check_rows(rows)
    other = with_a_second(lambda x: x.bfloat16().float(), data)
    other.rehearse(rows)
    with pytest.raises(UnsteadyError, match="on another device"):
        other.check_rows(rows)


def out_of_memory(_):
    raise torch.OutOfMemoryError


def test_a_device_that_cannot_take_a_pass_fails_before_a_payment_whatever_is_drawn(data):
    with pytest.raises(torch.OutOfMemoryError):  # the rows that were checked once are not checked again
        with_a_second(out_of_memory, data).rehearse(8)


def test_when_memory_runs_out_down_to_single_rows_that_differ_one_device_is_left(data):
    trainer = with_a_second(lambda x: x.bfloat16().float(), data)
    assert trainer.fewer_rows(8) == 1
    assert not trainer.clipped.replicas.copies


class Closed(nn.Module):
    """Computes with the layer of the model that was built first, in whatever copy of it."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 3)
        self.call = lambda x: self.layer(x)

    def forward(self, x):
        return self.call(x)


def test_a_copy_that_computes_with_the_first_ones_parameters_is_refused(data):
    model = nn.Sequential(Closed(), nn.Linear(3, 3))
    trainer = trainer_for(model, data, plan_of(), more_devices=[CPU])
    with pytest.raises(UnsteadyError, match="on another device"):
        trainer.check_rows(8)


def test_one_by_one_takes_one_device(data):
    assert not trainer_on(2, data, arithmetic="proven").clipped.replicas.copies


def test_what_is_recorded_of_one_device_is_not_replayed_for_another(data):
    passes = trainer_on(1, data)._passes
    assert passes.kind == passes.on(CPU).kind
    assert passes.kind != passes.on(torch.device("meta")).kind
