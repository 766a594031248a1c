"""Why a secure sum takes one local step a round: with more, other clients contract their own noise away.

Each of K clients adds a share of the noise to every local step. Composed as T Gaussian mechanisms it looks
right. But what a client adds early passes through its own later steps; where its loss is curved, these take
it back, and with it the noise that another client's record was promised. Nobody lies or works with the
server.
"""

import math

import numpy as np
import pytest
from scipy.stats import norm

from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.records import Entry

CLIENTS, BOUND, DELTA = 10, 1.0, 1e-5
WHOLE = 10.0  # the noise of a step's sum, in clipping bounds
SHARE = WHOLE / math.sqrt(CLIENTS)
OTHERS = 1000  # records of each other client
CURVATURE = 0.9  # of their losses: what a step leaves of a client's distance from its optimum is a tenth


def opened_sum(noise: np.ndarray, *, record: bool) -> np.ndarray:
    """The sum of the clients' updates, (D,), of D runs. noise: (K, T, D); record: whether client 0 has one.

    Each client begins at 0 and takes T steps of SGD, learning rate 1, on clipped gradients of single records.
    The record's loss is linear, and it is the only one of client 0; the other clients' losses are quadratic.
    """
    total = np.zeros(noise.shape[2])
    for client in range(CLIENTS):
        weight = np.zeros(noise.shape[2])
        for step in range(noise.shape[1]):
            if client == 0:
                gradient = np.full_like(weight, -BOUND if record else 0.0)
            else:
                each = CURVATURE * weight / OTHERS
                gradient = OTHERS * np.clip(each, -BOUND, BOUND)
            weight = weight - (gradient + noise[client, step])
        total += weight
    return total


def exact_mu(steps: int) -> float:
    """Distance of the two sums over their deviation: no clipping is active, so that all is linear."""
    count = CLIENTS * steps
    impulses = SHARE * np.eye(count).reshape(CLIENTS, steps, count)
    deviation = math.sqrt(float((opened_sum(impulses, record=False) ** 2).sum()))
    nothing = np.zeros((CLIENTS, steps, 1))
    moved = opened_sum(nothing, record=True) - opened_sum(nothing, record=False)
    return float(abs(moved[0])) / deviation


def claimed_mu(steps: int) -> float:
    """As if each step of the sum had the whole noise, and steps composed."""
    return math.sqrt(steps) * BOUND / WHOLE


def epsilon_of(mu: float) -> float:
    return compute_epsilon((Entry(1.0, 1.0 / mu, 1),), DELTA)


def test_composition_would_claim_a_third_of_what_ten_steps_cost():
    assert claimed_mu(10) == pytest.approx(0.316, abs=5e-4)
    assert exact_mu(10) == pytest.approx(0.724, abs=5e-4)
    assert epsilon_of(claimed_mu(10)) == pytest.approx(1.20, abs=0.01)
    assert epsilon_of(exact_mu(10)) == pytest.approx(3.03, abs=0.01)


def test_what_is_claimed_is_beaten_by_somebody_who_looks_at_the_sum():
    """Not a formula: runs of the clients themselves, and the best test on what they show."""
    runs, random = 20_000, np.random.default_rng(3)
    seen = [
        opened_sum(SHARE * random.standard_normal((CLIENTS, 10, runs)), record=record)
        for record in (False, True)
    ]
    threshold = float(np.quantile(seen[0], 0.95))
    power = float((seen[1] > threshold).mean())
    most = float(norm.cdf(norm.ppf(0.05) + claimed_mu(10)))  # by the claim, at 5 % false alarms
    margin = 5 * math.sqrt(0.25 / runs)
    assert power > most + margin
    assert power == pytest.approx(norm.cdf(norm.ppf(0.05) + exact_mu(10)), abs=margin)


def test_one_local_step_costs_what_is_claimed_and_two_cost_more():
    assert exact_mu(1) == pytest.approx(claimed_mu(1), rel=1e-12)
    assert exact_mu(2) > 1.2 * claimed_mu(2)
