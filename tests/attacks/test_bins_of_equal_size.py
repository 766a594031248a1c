"""Shuffle and cut: a record that enters moves others to other steps, and the sums by more than the bound.

The server knows all records but Alice's. Known gradients are C e, hers is -C e. Cut into bins of equal size,
20 known records lie 10 and 10; with hers 10 and 10, or 11 and 9. So she moves one sum by C, or the two by C
and 2 C. With a coin of its own for every record she moves one sum by C, whatever the coins of others.
"""

import math

import numpy as np
import pytest
import torch

from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.accounting.pass_loss import PassLoss
from fl_dp.audit.guessing import find_epsilon
from fl_dp.audit.noise_family import NoiseFamily
from fl_dp.engine.noise.randomness import Randomness
from fl_dp.engine.sampling import allocation_draw
from fl_dp.records import Entry

KNOWN, STEPS, SIGMA, TRIALS = 20, 2, 0.5, 3000
LOSS = PassLoss(STEPS, SIGMA)


def shuffle_and_cut(num_records, pass_steps, step, source):
    order, size = torch.randperm(num_records, generator=source.generator()), -(-num_records // pass_steps)
    return order[step * size : (step + 1) * size]


def _sums(draw, *, with_alice: bool, steps: int = STEPS, trials: int = TRIALS) -> np.ndarray:
    """(trials, steps): sums along e, in units of C, without noise. The same keys for both."""
    n = KNOWN + with_alice
    gradients = torch.tensor([1.0] * KNOWN + [-1.0] * with_alice)
    return np.array([
        [float(gradients[draw(n, steps, step, Randomness(key.to_bytes(32)))].sum()) for step in range(steps)]
        for key in range(trials)
    ])  # fmt: skip


def _noised(sums: np.ndarray, seed: int) -> np.ndarray:
    return sums + SIGMA * np.random.default_rng(seed).standard_normal(sums.shape)


def test_equal_bins_show_more_than_is_claimed():
    """By one event, that the sums are far apart: without her both are 10 but for noise."""
    there, gone = (_noised(_sums(shuffle_and_cut, with_alice=w), seed=w) for w in (True, False))
    seen = [float(np.mean(np.ptp(one, axis=1) > 2.2)) for one in (there, gone)]
    assert seen[0] - math.exp(3.0) * (seen[1] + 0.003) > 2 * float(LOSS.removal_delta(3.0))


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_own_coins_show_no_more_to_somebody_who_knows_those_of_all_others(epsilon):
    known = _sums(allocation_draw, with_alice=False)
    there = _noised(_sums(allocation_draw, with_alice=True) - known, seed=1)
    gone = _noised(np.zeros_like(known), seed=0)
    loss_there, loss_gone = (
        np.logaddexp.reduce((-one - 0.5) / SIGMA**2, axis=1) - math.log(STEPS) for one in (there, gone)
    )
    for outcomes, other, claimed in (
        (loss_there, loss_gone, LOSS.removal_delta(epsilon)),
        (-loss_gone, -loss_there, LOSS.addition_delta(epsilon)),
    ):
        likely, less = (float(np.mean(one > epsilon)) for one in (outcomes, other))
        error = (0.5 + math.exp(epsilon) * math.sqrt(less)) / math.sqrt(TRIALS)
        assert abs(likely - math.exp(epsilon) * less - float(claimed)) < 4 * error


@pytest.mark.parametrize(("draw", "is_sound"), [(allocation_draw, True), (shuffle_and_cut, False)])
def test_an_audit_finds_less_than_is_claimed_of_coins_and_more_of_equal_bins(draw, is_sound):
    """Every trial is a pass of its own, with a coin that says whether Alice is there. Of ten bins of two, she
    makes seven of three.
    """
    steps, sigma, trials = 10, 1.5, 1000
    coins = np.random.default_rng(0).integers(0, 2, trials).astype(bool)
    known, there = (_sums(draw, with_alice=one, steps=steps, trials=trials) for one in (False, True))
    noise = sigma * np.random.default_rng(1).standard_normal(known.shape)
    seen = (
        np.where(coins[:, None], there, known) + noise - known * is_sound
    )  # of coins, the others' are known
    most_likely = np.logaddexp.reduce(-seen / sigma**2, axis=1)
    entry = Entry(1 / steps, sigma, steps, pass_steps=steps)
    scores = most_likely if is_sound else seen.std(axis=1)
    found, claimed = (
        find_epsilon(scores, coins, NoiseFamily(entry, 1e-5)).epsilon,
        compute_epsilon([entry], 1e-5),
    )
    assert found > 0
    assert (found < claimed) is is_sound
