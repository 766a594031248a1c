"""The choice of clients: how many, how often, and that only the secret tells."""

from collections import Counter
from itertools import pairwise

import pytest

from fl_dp.federation.server.client_sampling import ClientSampler

ABLE = [f"client {number}" for number in range(20)]
SECRET = bytes(range(32))
ROUNDS = range(1, 4001)


@pytest.mark.parametrize("scheme", ["fixed", "poisson", "budget"])
def test_every_client_is_chosen_as_often_as_any_other(scheme):
    sampler = ClientSampler(scheme, 5, SECRET)
    times = Counter(client for one in ROUNDS for client in sampler.choose(ABLE, one))
    for client in ABLE:
        assert abs(times[client] / len(ROUNDS) - 0.25) < 5 * (0.25 * 0.75 / len(ROUNDS)) ** 0.5


@pytest.mark.parametrize("scheme", ["fixed", "budget"])
def test_a_fixed_number_without_replacement_or_all_who_are_there(scheme):
    sampler = ClientSampler(scheme, 5, SECRET)
    for one in range(1, 50):
        chosen = sampler.choose(ABLE, one, lambda client: 1e-3)
        assert len(set(chosen)) == len(chosen) == 5
    assert sorted(sampler.choose(ABLE[:3], 1)) == ABLE[:3]
    assert sampler.choose([], 1) == []


def test_poisson_choices_are_independent_of_each_other_and_may_be_empty():
    sampler = ClientSampler("poisson", 5, SECRET)
    sizes = [len(sampler.choose(ABLE, one)) for one in ROUNDS]
    mean = sum(sizes) / len(sizes)
    variance = sum((size - mean) ** 2 for size in sizes) / len(sizes)
    assert abs(mean - 5) < 0.2
    assert abs(variance - 20 * 0.25 * 0.75) < 0.4  # of a binomial; a fixed number has none
    together = sum({ABLE[0], ABLE[1]} <= set(sampler.choose(ABLE, one)) for one in ROUNDS) / len(ROUNDS)
    assert abs(together - 0.25**2) < 0.02
    assert [] in [ClientSampler("poisson", 1, SECRET).choose(ABLE[:2], one) for one in range(1, 20)]


def test_poisson_takes_all_when_no_more_are_able_than_are_expected():
    assert ClientSampler("poisson", 5, SECRET).choose(ABLE[:4], 1) == ABLE[:4]


@pytest.mark.parametrize("scheme", ["fixed", "poisson", "budget"])
def test_the_secret_and_the_round_decide(scheme):
    sampler = ClientSampler(scheme, 5, SECRET)
    again = ClientSampler(scheme, 5, SECRET)
    choices = [sampler.choose(ABLE, one) for one in range(1, 30)]
    assert choices == [again.choose(ABLE, one) for one in range(1, 30)]
    assert all(one != other for one, other in pairwise(choices))
    another = ClientSampler(scheme, 5)
    assert choices != [another.choose(ABLE, one) for one in range(1, 30)]


def test_every_run_has_a_secret_of_its_own():
    first, second = ClientSampler("fixed", 5), ClientSampler("fixed", 5)
    assert first.secret != second.secret
    assert len(first.secret) == 32


def test_who_has_more_of_the_budget_left_comes_more_often():
    """One of two is drawn with chances in proportion to what is left: 3 to 1."""
    sampler = ClientSampler("budget", 1, SECRET)
    left = {"much": 0.75, "little": 0.25}
    times = Counter(sampler.choose(list(left), one, left.__getitem__)[0] for one in ROUNDS)
    assert abs(times["much"] / len(ROUNDS) - 0.75) < 5 * (0.75 * 0.25 / len(ROUNDS)) ** 0.5
