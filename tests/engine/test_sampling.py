"""Every record enters a logical batch alone, with the stated rate."""

import math

import pytest
import torch

from fl_dp.engine.sampling import physical_batches, poisson_draw
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


def test_an_empty_physical_batch_size_is_refused():
    with pytest.raises(ConfigError, match="physical_batch_size"):
        list(physical_batches(torch.arange(3), 0))
