"""Views of images: by their definition, drawn apart, clipped once, and refused where they cannot be."""

import dataclasses

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from definition import assert_equal, clipped_one_by_one
from torch import nn
from trainers import plan_of, trainer_for

from fl_dp.config.task import TaskSettings
from fl_dp.data.persons import PersonData
from fl_dp.data.tensor_data import TensorData
from fl_dp.engine.noise.randomness import Randomness
from fl_dp.errors import ConfigError
from fl_dp.form import Form
from fl_dp.tasks.task import Task
from fl_dp.training.augmentation import Views
from fl_dp.training.augmentations import cropped, flipped
from fl_dp.training.examples import examples_of
from fl_dp.training.step import draw

PLAN = plan_of(expected_batch_size=4, noise_multiplier=1e-6, max_grad_norm=0.05)
KEY = b"s" * 32
SECRET = Randomness(KEY)


def images(count=6, side=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 2, side, side, generator=generator)
    owners = tuple(f"p{k // 2}" for k in range(count))
    return TensorData(x, torch.arange(count) % 3, ("a", "b", "c"), groups=owners)


def task(form, **settings):
    made = Task(TaskSettings(**settings))
    made.form = form
    return made


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.Tanh(), nn.Flatten(), nn.Linear(36, 3))


def test_a_flip_changes_left_and_right_over_in_half_of_all_cases():
    x = torch.arange(6.0).view(1, 1, 2, 3).expand(2, -1, -1, -1)
    found = flipped(x, torch.tensor([[0.49], [0.5]], dtype=torch.float64), "")
    assert found[:, 0].tolist() == [[[2, 1, 0], [5, 4, 3]], [[0, 1, 2], [3, 4, 5]]]


def test_a_crop_is_a_window_of_the_mirrored_image():
    x = torch.arange(12.0).view(1, 1, 3, 4)
    nearly = 1 - 2.0**-53
    numbers = [[0.5, 0.5], [0.0, 0.5], [nearly, 0.0]]
    found = cropped(x.expand(3, -1, -1, -1), torch.tensor(numbers, dtype=torch.float64), "1")
    padded = F.pad(x, (1, 1, 1, 1), mode="reflect")
    assert torch.equal(found[0], x[0])
    assert torch.equal(found[1], padded[0, :, 0:3, 1:5])
    assert torch.equal(found[2], padded[0, :, 2:5, 0:4])


def test_a_crop_falls_on_all_places_alike():
    numbers = torch.rand(20000, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    x = torch.arange(25.0).view(1, 1, 5, 5).expand(len(numbers), -1, -1, -1)
    middle = cropped(x, numbers, "1")[:, 0, 2, 2]
    counts = torch.stack([(middle == value).sum() for value in (6, 7, 8, 11, 12, 13, 16, 17, 18)])
    assert counts.sum() == len(numbers)
    assert (counts / len(numbers) - 1 / 9).abs().max() < 0.01


def test_what_is_seen_of_an_example_follows_from_step_and_example_alone():
    data, views = images(), Views(3, "crop:2,flip")
    alone = examples_of(data, torch.tensor([4]), SECRET, views)
    among = examples_of(data, torch.tensor([0, 4, 1]), SECRET, views)
    later = examples_of(data, torch.tensor([4]), SECRET.child("later"), views)
    assert torch.equal(alone[0][0], among[0][1])
    assert not torch.equal(alone[0], later[0])


def test_views_of_one_record_and_of_equal_records_are_drawn_apart():
    data = images()
    same = dataclasses.replace(data, x=data.x[:1].expand(40, -1, -1, -1), y=torch.zeros(40).long(), groups=())
    inputs, targets, shares = examples_of(same, torch.arange(40), SECRET, Views(20, "crop:2"))
    kinds = [len(inputs[k].flatten(1).unique(dim=0)) for k in range(40)]
    firsts = len(inputs[:, 0].flatten(1).unique(dim=0))
    assert min(kinds) > 5  # of 25 places
    assert firsts > 12
    assert (inputs.shape, targets.shape, shares.shape) == ((40, 20, 2, 5, 5), (40, 20), (40, 20))
    assert torch.allclose(shares.sum(1), torch.ones(40))


def losses_one_by_one(model, batch):
    """The mean loss over an example's rows, for one backward pass each."""
    for inputs, targets, shares in zip(*batch, strict=True):
        yield (F.cross_entropy(model(inputs), targets, reduction="none") * shares).sum()


@pytest.mark.parametrize("persons", [False, True])
@pytest.mark.parametrize("arithmetic", ["steady-rows", "proven"])
def test_a_step_adds_one_clipped_gradient_for_each_example(persons, arithmetic):
    """Of all its views together: the definition, with next to no noise."""
    data = PersonData(images(), 2) if persons else images()
    unit = {"unit": "person:who", "records_per_person": 2} if persons else {}
    objective = task(data.form, augmentation="flip,crop:1,views:3", **unit).objective
    model, exact = network().train(), network().double()
    trainer = trainer_for(model, objective, dataclasses.replace(PLAN, arithmetic=arithmetic), key=KEY)
    drawn = draw(trainer.rule, trainer.source, len(data), 0.7)
    assert len(drawn) > 1
    inputs, targets, shares = trainer.examples(data, drawn)
    assert inputs.shape[1] == (6 if persons else 3)
    losses = losses_one_by_one(exact, [inputs.double(), targets, shares.double()])
    expected = clipped_one_by_one(exact, losses, PLAN.max_grad_norm)
    trainer.step(data, 0.7, 8)
    start, end = dict(network().named_parameters()), dict(model.named_parameters())
    moved = {n: (start[n] - end[n]).double() * PLAN.expected_batch_size / PLAN.learning_rate for n in end}
    assert_equal(moved, expected, 1e-5)
    assert max(float(total.abs().max()) for total in expected.values()) > 1e-3


def test_one_view_is_an_ordinary_example_and_without_privacy_it_is_seen_too():
    data = images()
    objective = task(data.form, augmentation="crop:2").objective
    assert [tuple(part.shape) for part in objective.blank(3)] == [(3, 2, 5, 5), (3,)]
    # all records, in whatever order: only the views differ
    plan = dataclasses.replace(PLAN, private=False, noise_multiplier=0.0, expected_batch_size=6)
    moved = []
    for key in (KEY, bytes(32)):
        model = network()
        trainer_for(model, objective, plan, key=key).step(data, 1.0, 6)
        moved.append(model[0].weight.detach().clone())
    assert not torch.allclose(*moved, atol=1e-7)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"augmentation": "views:4"}, "expected a change beside views:N"),
        ({"augmentation": "flap"}, "expected .*flip"),
        ({"augmentation": "flip,views:0"}, "expected views:N once"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, words):
    with pytest.raises(ConfigError, match=words):
        TaskSettings(**settings)


@pytest.mark.parametrize(
    ("name", "form", "words"),
    [
        ("flip", Form((6,), 3), "is for images"),
        ("flip", Form((6,), 3, "tokens", 9), "is for images"),
        ("crop:5", Form((1, 5, 9), 3), "from 1 to 4"),
        ("crop:x", Form((1, 5, 9), 3), "from 1 to 4"),
        ("crop:03", Form((1, 5, 9), 3), "from 1 to 4"),  # another name, which a site would decline
        ("crop:\u0663", Form((1, 5, 9), 3), "from 1 to 4"),
        ("crop", Form((1, 5, 9), 3), "crop:PIXELS"),
        ("flip:3", Form((1, 5, 9), 3), "takes no argument"),
    ],
)
def test_data_that_cannot_be_seen_so_are_refused(name, form, words):
    with pytest.raises(ConfigError, match=words):
        _ = task(form, augmentation=name).objective


def test_sites_compare_what_they_see():
    assert TaskSettings().seen == ""
    assert TaskSettings(augmentation=" crop:4 ,views:8,flip").seen == "8 views by crop:4, flip"


def test_uniform_numbers_stay_below_one():
    words = lambda _example, count: np.full(count, 2**64 - 1, dtype=np.uint64)  # noqa: E731
    x = torch.randn(1, 1, 1, 9, 9)
    assert Views(1, "crop:8").of(x, torch.tensor([0]), words).shape == x.shape
