"""An audit of the noised histogram: it finds less than is claimed, and finds a place that was not counted.

A canary's coin decides whether it is a test record; the attacker knows all else, and scores by the canary's
own cells. Each evaluation has fresh noise, so that the coins are those of as many separate mechanisms.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from fl_dp.accounting.calibration import calibrate_noise
from fl_dp.audit.guessing import find_epsilon
from fl_dp.audit.noise_family import NoiseFamily
from fl_dp.data.tensor_data import TensorData
from fl_dp.engine.noise.randomness import Randomness
from fl_dp.federation.client.evaluation import noised
from fl_dp.records import Entry
from fl_dp.tasks.score_histogram import Layout, count
from fl_dp.tasks.task import Task

CANARIES, DELTA = 3000, 1e-5


class Next(nn.Module):
    """Sure of the same token again."""

    def forward(self, x):
        return nn.functional.one_hot(x, 3).float() * 9


def tokens(number):
    """A canary whose tokens are all alike, and what scores it."""
    x = torch.zeros(1, number, dtype=torch.int64)
    return TensorData(x, x.clone(), ("a", "b", "c"), 3), Next()


def of_classes(number):
    """A canary of one of so many classes, each of which has cells of its own."""
    names = tuple(map(str, range(number)))
    return TensorData(torch.zeros(1, number), torch.zeros(1, dtype=torch.int64), names), nn.Identity()


def found(layout, epsilon, data, model):
    """The largest epsilon that the guesses prove."""
    task = Task()
    task.form = data.form
    with_it = count(model, task, data, layout, 1, torch.device("cpu"))
    without = np.zeros_like(with_it)
    noise = calibrate_noise(1.0, 1, epsilon, DELTA)
    coins = np.random.default_rng(0).integers(0, 2, CANARIES).astype(bool)
    direction = with_it * layout.weights
    scores = np.array(
        [
            noised(with_it if coin else without, layout, noise, Randomness(bytes(32)).child(place))
            @ direction
            for place, coin in enumerate(coins)
        ]
    )
    return find_epsilon(scores, coins, NoiseFamily(Entry(1.0, noise, 1), DELTA)).epsilon


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
@pytest.mark.parametrize(
    ("layout", "canary"),
    [(Layout(3, tokens=True, places=16), tokens(16)), (Layout(32), of_classes(32))],
    ids=["tokens", "classes"],
)
def test_less_is_found_than_is_claimed(epsilon, layout, canary):
    assert 0.1 * epsilon < found(layout, epsilon, *canary) < epsilon  # it is a strong audit, too


def test_places_that_are_not_counted_are_found():
    """The planted defect: a sequence of 16 places, accounted for as one."""
    layout = Layout(3, tokens=True, places=16)

    class Uncounted(Layout):
        sensitivity = Layout(3, tokens=True, places=1).sensitivity

    planted = Uncounted(**{name: getattr(layout, name) for name in ("classes", "tokens", "places")})
    assert planted.size == layout.size
    assert found(planted, 1.0, *tokens(16)) > 3.0


def test_cells_that_are_not_counted_are_found():
    """The planted defect: a record is in a cell of each of 32 classes, and they are accounted for as one."""

    class Uncounted(Layout):
        weights = np.ones(Layout(32).size)

    assert found(Uncounted(32), 1.0, *of_classes(32)) > 1.5


def test_the_worst_record_is_no_worse_than_the_layout_says():
    assert replace(Layout(3, tokens=True, places=16), cap=2).sensitivity == 32.0
