"""Every record enters a logical batch alone, with the stated rate."""

import math

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from fl_dp.engine.sampling import PoissonSampler, physical_batches, poisson_draw
from fl_dp.errors import ConfigError


def test_each_record_enters_with_the_rate_and_independently():
    generator, n, draws, rate = torch.Generator().manual_seed(1), 200, 2000, 0.13
    member = torch.zeros(draws, n)
    for d in range(draws):
        member[d, poisson_draw(n, rate, generator)] = 1
    deviation = math.sqrt(rate * (1 - rate) / draws)
    assert (member.mean(0) - rate).abs().max() < 5 * deviation
    sizes = member.sum(1)
    assert abs(float(sizes.var()) / (n * rate * (1 - rate)) - 1) < 0.2  # binomial: no fixed size


def test_rate_one_takes_everyone_and_no_records_none():
    assert poisson_draw(5, 1.0, torch.Generator()).tolist() == [0, 1, 2, 3, 4]
    assert len(poisson_draw(0, 0.5, torch.Generator())) == 0


def test_a_draw_may_be_empty_and_then_has_no_physical_batch():
    assert list(physical_batches(poisson_draw(3, 1e-12, torch.Generator().manual_seed(0)), 4)) == []


def test_physical_batches_hold_every_index_once_and_no_more_than_their_size():
    parts = list(physical_batches(torch.arange(10), 4))
    assert [len(part) for part in parts] == [4, 4, 2]
    assert torch.cat(parts).tolist() == list(range(10))


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.1, float("nan")])
def test_a_rate_that_is_no_probability_is_refused(rate):
    with pytest.raises(ConfigError, match="sample_rate"):
        poisson_draw(3, rate, torch.Generator())


def test_a_rate_is_kept_to_more_digits_than_float32_has():
    """float32 has no number between 1 - 2^-24 and 1: a rate in between would take everyone."""

    rate = 1 - 2.0**-30
    largest = torch.tensor([1 - 2.0**-53, 1 - 2.0**-30, 1 - 2.0**-29], dtype=torch.float64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "rand", lambda n, dtype, generator: largest.to(dtype))
        assert poisson_draw(3, rate, torch.Generator()).tolist() == [2]


def test_an_empty_physical_batch_size_is_refused():
    with pytest.raises(ConfigError, match="physical_batch_size"):
        list(physical_batches(torch.arange(3), 0))


class _Squares(Dataset):
    def __getitem__(self, index):
        return torch.tensor(index), torch.tensor(index**2)

    def __len__(self):
        return 30


def _sampler(seed=0, **options):
    settings = {"expected_batch_size": 3, "physical_batch_size": 2, "steps": 40, **options}
    return PoissonSampler(30, **settings, generator=torch.Generator().manual_seed(seed))


def _steps(sampler, loader=None):
    """Indices of every physical batch of every step."""
    loader = sampler if loader is None else loader
    return [[[int(i) for i in _indices(b)] for b in batches] for batches in sampler.logical_batches(loader)]


def _indices(batch):
    return batch if isinstance(batch[0], int) else batch[0]


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
    loader = DataLoader(_Squares(), batch_sampler=sampler, **options)
    assert _steps(sampler, loader) == _steps(_sampler())


def test_as_many_as_there_are_is_everyone_in_every_step():
    sampler = PoissonSampler(5, expected_batch_size=5, physical_batch_size=5, steps=2)
    assert sampler.sample_rate == 1.0
    assert _steps(sampler) == [[[0, 1, 2, 3, 4]]] * 2
    assert len(_steps(PoissonSampler(1, expected_batch_size=1, physical_batch_size=1, steps=1))) == 1


def test_only_empty_draws_are_steps_without_batches():
    sampler = PoissonSampler(10**6, expected_batch_size=1, physical_batch_size=1, steps=3)
    sampler.sample_rate = 1e-15
    assert _steps(sampler) == [[], [], []]


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


@pytest.mark.parametrize("stop", range(1, 12))
def test_a_loop_left_within_a_step_goes_on_with_the_next_physical_batch(stop):
    """However often it is left, every draw of the uninterrupted loop is trained on, and once."""
    whole, sampler = _steps(_sampler()), _sampler()
    taken = _leave(sampler, stop) + _leave(sampler, 3)
    rest = _steps(sampler)
    assert taken + [b for step in rest for b in step] == [b for step in whole for b in step]
    assert rest[1:] == whole[len(whole) - len(rest) + 1 :]


def test_after_a_loop_that_was_left_a_loop_over_the_loader_alone_is_still_refused():
    """It would train on the records of a draw that was never counted as a step."""
    sampler = _sampler()
    _leave(sampler, 2)
    with pytest.raises(ConfigError, match="logical_batches"):
        iter(sampler)
    assert _steps(sampler)
    with pytest.raises(ConfigError, match="logical_batches"):
        iter(sampler)


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


@pytest.mark.parametrize(
    ("stop", "loader_options"),
    [*((stop, None) for stop in range(1, 12)), (5, {"num_workers": 1}), (10, {"num_workers": 2})],
)
def test_saved_after_any_physical_batch_another_sampler_goes_on_from_there(stop, loader_options):
    whole, sampler = _steps(_sampler()), _sampler()
    loader = DataLoader(_Squares(), batch_sampler=sampler, **loader_options) if loader_options else sampler
    state, seen = None, 0
    for batches in sampler.logical_batches(loader):
        for _ in batches:
            seen += 1
            if seen == stop:
                state = sampler.state_dict()
    resumed = _sampler(seed=99)
    resumed.load_state_dict(state)
    rest = _steps(resumed)
    assert [b for step in rest for b in step] == [b for step in whole for b in step][stop:]
    assert rest[1:] == whole[len(whole) - len(rest) + 1 :]


def test_saved_between_steps_another_sampler_starts_with_the_next():
    whole, sampler = _steps(_sampler()), _sampler()
    for done, batches in enumerate(sampler.logical_batches(sampler), start=1):
        assert list(batches) == whole[done - 1]
        resumed = _sampler(seed=99)
        resumed.load_state_dict(sampler.state_dict())
        assert _steps(resumed) == whole[done:]


def test_a_saved_state_of_other_settings_is_refused():
    with pytest.raises(ConfigError, match=r"'sample_rate': 0\.1"):
        _sampler(expected_batch_size=6).load_state_dict(_sampler().state_dict())


def test_a_loop_that_would_lose_empty_draws_is_refused():
    with pytest.raises(ConfigError, match="logical_batches"):
        iter(_sampler())
    with pytest.raises(ConfigError, match="logical_batches"):
        next(iter(DataLoader(_Squares(), batch_sampler=_sampler())))


def test_loaders_that_do_not_fit_are_refused():
    sampler = _sampler()
    with pytest.raises(ConfigError, match="batch_sampler=sampler"):
        next(sampler.logical_batches(DataLoader(_Squares())))
    loader = DataLoader(_Squares(), batch_sampler=sampler, num_workers=1, in_order=False)
    with pytest.raises(ConfigError, match="in_order"):
        next(sampler.logical_batches(loader))


@pytest.mark.parametrize(
    "options",
    [{"expected_batch_size": 31}, {"expected_batch_size": 0}, {"physical_batch_size": 0}, {"steps": 0}],
)
def test_settings_out_of_range_are_refused(options):
    with pytest.raises(ConfigError, match=next(iter(options))):
        _sampler(**options)
