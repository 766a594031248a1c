"""Every record enters a logical batch alone, with the stated rate."""

import math
from collections import Counter

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from torch.utils.data import DataLoader, TensorDataset

from fl_dp.engine.noise.randomness import ByteStream, Randomness
from fl_dp.engine.sampling import PoissonSampler, in_random_order, physical_batches, poisson_draw
from fl_dp.errors import ConfigError


@pytest.mark.parametrize("keyed", [False, True])
def test_each_record_enters_with_the_rate_and_independently(keyed):
    generator, n, draws, rate = torch.Generator().manual_seed(1), 200, 2000, 0.13
    member = torch.zeros(draws, n)
    for d in range(draws):
        source = Randomness(d.to_bytes(32, "big")) if keyed else generator
        member[d, poisson_draw(n, rate, source)] = 1
    deviation = math.sqrt(rate * (1 - rate) / draws)
    assert (member.mean(0) - rate).abs().max() < 5 * deviation
    sizes = member.sum(1)
    assert abs(float(sizes.var()) / (n * rate * (1 - rate)) - 1) < 0.2  # binomial: no fixed size


def test_physical_batches_hold_every_index_once_and_no_more_than_their_size():
    parts = list(physical_batches(torch.arange(10), 4))
    assert [len(part) for part in parts] == [4, 4, 2]
    assert torch.cat(parts).tolist() == list(range(10))
    assert len(poisson_draw(0, 0.5, torch.Generator())) == 0
    assert list(physical_batches(poisson_draw(3, 1e-12, torch.Generator()), 4)) == []


def test_a_rate_is_kept_to_more_digits_than_float32_has(monkeypatch):
    """float32 has no number between 1 - 2^-24 and 1: a rate in between would take everyone."""
    largest = torch.tensor([1 - 2.0**-53, 1 - 2.0**-30, 1 - 2.0**-29], dtype=torch.float64)
    monkeypatch.setattr(torch, "rand", lambda n, dtype, generator: largest.to(dtype))
    assert poisson_draw(3, 1 - 2.0**-30, torch.Generator()).tolist() == [2]


DATA = TensorDataset(torch.arange(30))


def _own(**options):
    """A sampler whose draws come from the system's entropy."""
    return PoissonSampler(30, **{"expected_batch_size": 3, "physical_batch_size": 2, "steps": 40, **options})


def _sampler(seed=0, **options):
    return _own(generator=torch.Generator().manual_seed(seed), **options)


def _registered(**options):
    sampler = _own(**options)
    sampler.register()
    return sampler


def _steps(sampler, loader=None):
    """Indices of every physical batch of every step."""
    if loader is None:
        return [list(batches) for batches in sampler.logical_batches(sampler)]
    return [[batch[0].tolist() for batch in batches] for batches in sampler.logical_batches(loader)]


def test_steps_are_poisson_draws_cut_into_physical_batches_and_empty_ones_are_steps():
    generator = torch.Generator().manual_seed(0)
    expected = [
        [part.tolist() for part in physical_batches(poisson_draw(30, 0.1, generator), 2)] for _ in range(40)
    ]
    assert [] in expected
    assert _steps(_sampler()) == expected


@pytest.mark.parametrize(
    "options", [{}, {"num_workers": 1, "prefetch_factor": 4}], ids=["in process", "prefetching"]
)
def test_a_data_loader_keeps_the_boundaries(options):
    sampler = _sampler()
    loader = DataLoader(DATA, batch_sampler=sampler, **options)
    assert _steps(sampler, loader) == _steps(_sampler())


def test_an_epoch_by_default_and_new_draws_in_the_next():
    sampler = _sampler(expected_batch_size=7, steps=None)
    first, second = _steps(sampler), _steps(sampler)
    assert len(first) == len(second) == 5
    assert first != second


def test_a_loop_takes_up_where_it_was_left_and_skips_what_an_inner_loop_leaves():
    whole, sampler = _steps(_sampler()), _sampler()
    first_batches = []
    for done, batches in enumerate(sampler.logical_batches(sampler)):
        if done == 15:
            break
        first_batches.append(next(batches, None))
    assert first_batches == [step[0] if step else None for step in whole[:15]]
    assert _steps(sampler) == whole[15:]


def _leave(sampler, stop):
    """Take `stop` physical batches, then leave both loops, as `break` and `return` do."""
    taken = []
    for batches in sampler.logical_batches(sampler):
        for batch in batches:
            taken.append(batch)
            if len(taken) == stop:
                return taken
    return taken


@pytest.mark.parametrize("stop", [1, 2, 3, 7])
def test_a_loop_left_within_a_step_goes_on_with_the_next_physical_batch(stop):
    """However often it is left, every draw of the uninterrupted loop is trained on, and once."""
    whole, sampler = _steps(_sampler()), _sampler()
    taken = _leave(sampler, stop) + _leave(sampler, 3)
    rest = _steps(sampler)
    assert taken + [b for step in rest for b in step] == [b for step in whole for b in step]
    assert rest[1:] == whole[len(whole) - len(rest) + 1 :]


def test_a_loop_that_is_closed_late_does_not_end_the_one_that_has_begun():
    sampler, whole = _sampler(), _steps(_sampler())
    left = sampler.logical_batches(sampler)
    assert list(next(left)) == whole[0]
    begun = sampler.logical_batches(sampler)
    assert list(next(begun)) == whole[1]
    left.close()
    assert list(iter(sampler))  # is not refused: the second loop still runs
    begun.close()
    with pytest.raises(ConfigError, match="logical_batches"):
        iter(sampler)


@pytest.mark.parametrize("loader_options", [None, {"num_workers": 1, "prefetch_factor": 4}])
def test_a_state_is_to_be_had_between_logical_batches_alone_however_far_the_loader_is_ahead(loader_options):
    sampler = _own()
    loader = DataLoader(DATA, batch_sampler=sampler, **loader_options) if loader_options else sampler
    refused = 0
    for done, batches in enumerate(sampler.logical_batches(loader)):
        assert sampler.state_dict()["steps"] == done
        for _ in batches:
            refused += 1
            with pytest.raises(ConfigError, match="middle of a logical batch"):
                sampler.state_dict()
        assert sampler.state_dict() == {"settings": sampler._settings(), "steps": done + 1}
    assert refused > 40
    assert sampler.state_dict()["steps"] == 0  # the next pass begins anew


def test_saved_between_steps_another_sampler_makes_the_steps_that_are_left_with_draws_of_its_own():
    sampler = _own(expected_batch_size=15)
    for done, batches in enumerate(sampler.logical_batches(sampler), start=1):
        drawn = list(batches)
        resumed = _own(expected_batch_size=15)
        resumed.load_state_dict(sampler.state_dict())
        rest = _steps(resumed)
        assert len(rest) == 40 - done or (done == 40 and len(rest) == 0)
        assert drawn not in rest


def test_loading_ends_a_draw_that_was_begun():
    sampler = _own(expected_batch_size=15)
    state = sampler.state_dict()
    taken = _leave(sampler, 5)
    sampler.load_state_dict(state)
    steps = _steps(sampler)
    assert len(steps) == 40
    assert steps[0][:5] != taken


@pytest.mark.parametrize("leave", [False, True])
def test_a_registered_sampler_goes_on_when_the_step_was_taken_wherever_its_loops_were_left(leave):
    """A step may come when the last physical batch was handed out, before the inner loop knows it is over."""
    sampler = _registered(expected_batch_size=30, steps=3)
    loop = sampler.logical_batches(sampler)
    batches = next(loop)
    first = [next(batches) for _ in range(15)]
    sampler.step_taken(30)
    assert sampler.state_dict()["steps"] == 1
    if leave:
        loop.close()
        loop = sampler.logical_batches(sampler)
    rest = 0
    for batches in loop:
        assert list(batches) == first
        sampler.step_taken(30)
        rest += 1
    assert rest == 2


@pytest.mark.parametrize("stop", [1, 15])
def test_a_registered_sampler_that_is_left_within_a_draw_hands_it_out_again_whole(stop):
    """Also if all of it was handed out, and its step was not taken."""
    sampler = _registered(expected_batch_size=30, steps=2)
    taken = _leave(sampler, stop)
    loop = sampler.logical_batches(sampler)
    again = list(next(loop))
    assert (len(again), again[:stop]) == (15, taken)
    sampler.step_taken(30)
    assert list(next(loop)) == again


def test_a_released_sampler_hands_out_a_draw_without_its_step_again_whole():
    sampler = _registered(expected_batch_size=15)
    taken = _leave(sampler, 2)
    sampler.release()
    assert _steps(sampler)[0][:2] == taken


def test_a_draw_is_over_when_its_step_was_taken_and_not_before():
    sampler = _registered(steps=3, expected_batch_size=30, physical_batch_size=30)
    loop = sampler.logical_batches(sampler)
    with pytest.raises(ConfigError, match="without a draw"):
        sampler.step_taken(30)
    list(next(loop))
    with pytest.raises(ConfigError, match="middle of a logical batch"):
        sampler.state_dict()
    with pytest.raises(ConfigError, match="left without a step"):
        next(loop)


def _over_the_loader_alone(sampler):
    return iter(DataLoader(DATA, batch_sampler=sampler))


def _out_of_order(sampler):
    loader = DataLoader(DATA, batch_sampler=sampler, num_workers=1, in_order=False)
    return sampler.logical_batches(loader)


def _after_it_was_left(sampler):
    _leave(sampler, 2)
    return iter(sampler)


# A loop over the loader alone loses empty draws, and may train on a draw that was never counted as a step.
REFUSED = {
    "a rate of 0": (lambda: poisson_draw(3, 0.0, torch.Generator()), "sample_rate"),
    "a negative rate": (lambda: poisson_draw(3, -0.1, torch.Generator()), "sample_rate"),
    "a rate above 1": (lambda: poisson_draw(3, 1.1, torch.Generator()), "sample_rate"),
    "no number": (lambda: poisson_draw(3, math.nan, torch.Generator()), "sample_rate"),
    "batches of nothing": (lambda: next(physical_batches(torch.arange(3), 0)), "physical_batch_size"),
    "more than there are": (lambda: _sampler(expected_batch_size=31), "expected_batch_size"),
    "draws of nothing": (lambda: _sampler(expected_batch_size=0), "expected_batch_size"),
    "empty passes": (lambda: _sampler(physical_batch_size=0), "physical_batch_size"),
    "no steps": (lambda: _sampler(steps=0), "steps"),
    "the sampler alone": (lambda: iter(_sampler()), "logical_batches"),
    "the loader alone": (lambda: next(_over_the_loader_alone(_sampler())), "logical_batches"),
    "the sampler alone, later": (lambda: _after_it_was_left(_sampler()), "logical_batches"),
    "a generator beside other ranks": (
        lambda: _sampler().spread(torch.Generator, 0, 2),
        "leave out generator=",
    ),
    "another order": (lambda: next(_out_of_order(_sampler())), "in_order"),
    "another loader": (
        lambda: next(_sampler().logical_batches(DataLoader(DATA))),
        "batch_sampler=sampler",
    ),
    "another state": (
        lambda: _own(expected_batch_size=6).load_state_dict(_own().state_dict()),
        r"'sample_rate': 0\.1",
    ),
    # made again with the same seed it would repeat the draws that were made before the state
    "a generator": (lambda: _sampler().load_state_dict(_sampler().state_dict()), "was given a generator"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_would_be_no_poisson_draw_is_refused(case):
    ask, words = REFUSED[case]
    with pytest.raises(ConfigError, match=words):
        ask()


def test_ranks_make_one_draw_and_share_out_its_passes():
    def keyed():
        return Randomness(bytes(32)).generator()

    alone = _own(expected_batch_size=6)
    alone.spread(keyed, 0, 1)
    whole, parts = _steps(alone), []
    for rank in range(3):
        sampler = _own(expected_batch_size=6)
        sampler.spread(keyed, rank, 3)
        parts.append(_steps(sampler))
    assert any(len(passes) > 3 for passes in whole)
    for step, passes in enumerate(whole):
        assert [part[step] for part in parts] == [passes[rank::3] for rank in range(3)]


def test_a_sampler_that_is_released_shares_no_draws_any_more():
    samplers = [_own(), _own()]
    for rank, sampler in enumerate(samplers):
        sampler.spread(lambda: Randomness(bytes(32)).generator(), rank, 2)
        sampler.register()
        sampler.release()
    one, other = map(_steps, samplers)
    assert one != other
    assert any(len(passes) > 1 for passes in one)


def test_every_order_of_a_draw_is_equally_likely():
    """Of four numbers there are 24, each expected 250 times."""
    orders = Counter(
        tuple(in_random_order(torch.arange(4), Randomness.system()).tolist()) for _ in range(6000)
    )
    assert len(orders) == 24
    assert chisquare(list(orders.values())).pvalue > 1e-6


def test_an_order_follows_from_its_source_alone():
    numbers, source = torch.tensor([3, 8, 21, 40, 41]), Randomness(bytes(32))
    assert torch.equal(in_random_order(numbers, source), in_random_order(numbers, source))
    assert in_random_order(numbers, source).sort().values.equal(numbers)
    others = {tuple(in_random_order(numbers, source.child(n)).tolist()) for n in range(20)}
    assert len(others) > 15
    assert len(in_random_order(numbers[:0], source)) == 0


def test_words_of_which_two_are_equal_decide_no_order(monkeypatch):
    given = iter([[5, 5, 1], [7, 2, 7], [9, 4, 6]])
    monkeypatch.setattr(ByteStream, "words", lambda self, count, dtype: np.array(next(given), dtype))
    assert in_random_order(torch.tensor([10, 20, 30]), Randomness(bytes(32))).tolist() == [20, 30, 10]
