"""Who takes the first step together with whom."""

import dataclasses
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fl_dp.data.persons import PersonData
from fl_dp.data.tensor_data import TensorData
from fl_dp.engine.noise.randomness import Randomness
from fl_dp.records import RoundPlan
from fl_dp.simulation.actor.first_steps import TOGETHER, begin_together, grouped
from fl_dp.simulation.work import ClientWork
from fl_dp.training.examples import axes_of
from fl_dp.training.objective import Objective
from fl_dp.training.private import PrivateTrainer


def items(federation: Any, count: int, **plan: Any) -> list[ClientWork]:
    asked = dataclasses.replace(federation.plan(), **plan)
    return [ClientWork(f"{count}-{k}", str(k), k, asked, asked.steps, 0.2, None) for k in range(count)]


def sizes(some: list[ClientWork], together: int = TOGETHER, update_bytes: int = 10**5) -> list[int]:
    ordered, groups = grouped(some, together, update_bytes)
    assert sorted(item.message for item in ordered) == sorted(item.message for item in some)
    assert [item for item in ordered if item.group is not None] == [item for one in groups for item in one]
    assert all(item.group == number for number, one in enumerate(groups) for item in one)
    return [len(one) for one in groups]


@pytest.mark.parametrize(
    ("batch", "together", "update_bytes", "largest"),
    [
        (20, TOGETHER, 10**5, 5),  # 0.8 * TOGETHER examples
        (20, 50, 10**5, 2),
        (20, TOGETHER, 4 * 10**6, 2),  # sums of 8 MiB
        (TOGETHER, TOGETHER, 10**5, None),
        (20, 10, 10**5, None),
        (20, TOGETHER, 10**9, None),
    ],
)
def test_as_many_as_fit(federation, batch, together, update_bytes, largest):
    found = sizes(items(federation, 60, expected_batch_size=batch), together, update_bytes)
    assert max(found, default=None) == largest


def test_the_last_ones_go_alone_so_that_all_actors_end_together(federation):
    found = sizes(items(federation, 100, expected_batch_size=20))
    assert found == sorted(found, reverse=True)
    assert sum(found) == 92
    assert sizes(items(federation, 8)) == []


def test_the_longest_first_and_more_steps_do_not_matter(federation):
    some = items(federation, 20) + items(federation, 21, steps=7)
    ordered, groups = grouped(some, TOGETHER, 1)
    assert [item.steps for item in ordered] == [7] * 21 + [2] * 20
    assert any(len({item.steps for item in group}) == 2 for group in groups)


@pytest.mark.parametrize(
    "change", [{"model": "other"}, {"loss": "other"}, {"max_grad_norm": 3.0}, {"precision": "other"}]
)
def test_only_clients_of_one_model_loss_and_bound_step_together(federation, change):
    _, groups = grouped([*items(federation, 20), *items(federation, 21, **change)], TOGETHER, 1)
    assert groups
    assert all(len({one.plan for one in group}) == 1 for group in groups)


@pytest.mark.parametrize(
    "change",
    [
        {"private": False, "noise_multiplier": 0.0},
        {"arithmetic": "proven"},  # records are computed one by one
        {"local_algorithm": "mr-mtl", "pull": 0.3},  # models of their own: a pass is of one set of weights
        {"personal": "1.bias"},
    ],
    ids=str,
)
def test_who_goes_alone(federation, change):
    assert sizes(items(federation, 60, **change)) == []


def test_persons_of_several_clients_are_chosen_as_each_would_alone():
    """By each client's own bytes: fresh records that another client's would choose tell of both."""
    x, owners = torch.arange(80.0).view(80, 1), tuple(f"p{k // 20}" for k in range(80))
    records = TensorData(x / 80, torch.arange(80) % 2, ("a", "b"), groups=owners)
    data = PersonData(records, 2, fresh=True)
    plan = RoundPlan("r", 1, "linear", 1, 2, 0.1, 0.0, 1.0, 1.0, unit="person, fresh 2 records")
    objective = Objective(
        lambda model, batch: F.cross_entropy(model(batch[0]), batch[1], reduction="none"), data.form, 2
    )
    model, cpu = nn.Linear(1, 2), torch.device("cpu")
    axes = axes_of(model, objective, cpu)

    def made() -> list[PrivateTrainer]:
        keys = (Randomness(bytes([k]) * 32) for k in range(2))
        return [PrivateTrainer(model, axes, plan, objective, device=cpu, randomness=key) for key in keys]

    together = made()
    begin_together([(one, data, 1.0) for one in together], 8)
    for one, alone in zip(together, made(), strict=True):
        assert one._begun is not None
        expected = alone._clipped_sum(data, alone.draw(data, 1.0), 8)
        for name, grad in expected.grads.items():
            torch.testing.assert_close(one._begun.grads[name].double(), grad.double())
