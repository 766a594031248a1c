"""The schools that examples/schools makes up, and what chooses settings on them."""

from types import ModuleType

import numpy as np
import pytest
import torch
from torch import Tensor

GROUPS = ((0, 3), (5, 7), (7, 10), (10, 21), (21, 24), (24, 27))  # columns of which one is 1


def test_made_up_schools_have_the_columns_of_real_ones(made_up: ModuleType) -> None:
    schools = made_up.schools(0)
    assert len(schools) == 139
    for x, y in schools:
        assert 25 <= len(x) <= 250
        assert x.shape[1:] == (28,)
        assert all((x[:, first:end].sum(axis=1) == 1).all() for first, end in GROUPS)
        assert (x[:, -1] == 1).all()
        assert y.shape == (len(x), 1)
        assert y.min() >= 1
        assert y.max() <= 70
    assert not np.array_equal(schools[0][1], made_up.schools(1)[0][1])


def test_made_up_scores_vary_as_it_is_said(made_up: ModuleType) -> None:
    """Before they are cut to the scale's ends, which takes a little of each."""
    made = [(y.ravel() - 1) / 69 for seed in range(4) for _, y in made_up.schools(seed)]
    everyone = np.concatenate(made)
    assert everyone.mean() == pytest.approx(made_up.MEAN, abs=0.03)
    assert everyone.std() == pytest.approx(made_up.DEVIATION, abs=0.03)
    between = np.var([one.mean() for one in made if len(one) > 60]) / everyone.var()
    assert 0.08 < between < 0.22


@pytest.mark.parametrize(("name", "pull"), [("fedavg", 0.0), ("mr-mtl", 0.0), ("mr-mtl", 0.7)])
def test_what_chooses_learns_as_it_is_defined(
    choose: ModuleType, monkeypatch: pytest.MonkeyPatch, name: str, pull: float
) -> None:
    """Without noise, beside autograd: mean squared error, and pull / 2 of the squared distance."""
    monkeypatch.setattr(choose, "ROUNDS", 3)
    rng = np.random.default_rng(0)
    each = [(rng.normal(size=(n, 2)), rng.normal(size=n)) for n in (4, 9)]
    own = choose.learn(choose.stacked(each), choose.Way(name, 0.05, 1.0, pull), 0.0, rng)
    shared = torch.zeros(3, dtype=torch.float64)
    weights = [shared.clone() for _ in each]
    for _ in range(3):
        start = [shared.clone() if name == "fedavg" else one for one in weights]
        weights = [_five_steps(*one, w, shared, pull) for one, w in zip(each, start, strict=True)]
        shared = (4 * weights[0] + 9 * weights[1]) / 13
    expected = torch.stack([shared, shared] if name == "fedavg" else weights)
    assert torch.allclose(torch.from_numpy(own), expected, atol=1e-12)


def _five_steps(x: np.ndarray, y: np.ndarray, start: Tensor, shared: Tensor, pull: float) -> Tensor:
    weights = start
    for _ in range(5):
        leaf = weights.clone().requires_grad_()
        inputs = torch.from_numpy(np.c_[x, np.ones(len(x))])
        loss = (inputs @ leaf - torch.from_numpy(y)).square().mean() + pull / 2 * (
            leaf - shared
        ).square().sum()
        (gradient,) = torch.autograd.grad(loss, leaf)
        weights = weights - 0.05 * gradient
    return weights


def test_what_chooses_clips_each_record_and_leaves_short_gradients_as_they_are(choose: ModuleType) -> None:
    rng = np.random.default_rng(0)

    def sums(x: np.ndarray, y: np.ndarray, bound: float, noise: float) -> np.ndarray:
        found: np.ndarray = choose._sums(choose.stacked([(x, y)]), np.zeros((1, 3)), bound, noise, rng)
        return found

    x, y = rng.normal(size=(6, 2)), 100 * rng.normal(size=6)
    tiny = 1e-12  # of noise: enough that clipping is on
    moved = sums(x, y, 0.5, tiny) - sums(x[1:], y[1:], 0.5, tiny)
    assert np.linalg.norm(moved) == pytest.approx(0.5, abs=1e-9)
    assert np.allclose(sums(x, y, 1e6, 1e-20), sums(x, y, 1e6, 0.0), atol=1e-9)


def test_what_chooses_adds_the_noise_that_is_said(choose: ModuleType) -> None:
    rng = np.random.default_rng(0)
    nothing = choose.Records(np.zeros((500, 1, 20)), np.zeros((500, 1)), np.ones((500, 1)))
    sums = choose._sums(nothing, np.zeros((500, 20)), 0.5, 6.0, rng)
    assert sums.std() == pytest.approx(3.0, rel=0.03)
