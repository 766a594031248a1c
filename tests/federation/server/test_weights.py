"""What an update counts in the average."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.federation.server.ask import capped, weight_of
from fl_dp.records import ClientProfile, Entry


def profile(size: int) -> ClientProfile:
    return ClientProfile("a", size, 3.0, 1e-5, (), "pld")


def test_by_noise_it_is_the_inverse_of_the_updates_variance():
    """Of the noise alone, simulated: steps of rate 0.1 and C = 2, at two sites."""
    generator = torch.Generator().manual_seed(0)
    sites = [(profile(200), Entry(0.1, 1.5, 4)), (profile(60), Entry(0.5, 0.7, 12))]
    products = []
    for one, entry in sites:
        batch = entry.sample_rate * one.public_size
        noise = torch.randn(entry.steps, 200_000, generator=generator) * entry.noise_multiplier * 2.0
        moved = (0.1 * noise / batch).sum(0)
        products.append(moved.var().item() * weight_of("noise", one, entry))
    assert products[0] == pytest.approx(products[1], rel=0.02)


WEIGHTS = st.lists(st.floats(1e-6, 1e12), min_size=1, max_size=12)


@given(WEIGHTS)
@settings(max_examples=50)
def test_none_counts_more_than_twice_the_mean_of_the_others(weights: list[float]):
    found = capped(weights)
    share = 2 / (len(weights) + 1)
    assert max(found) <= share * sum(found) * (1 + 1e-9)
    assert max(found) <= 2 * sum(found) / len(found) * (1 + 1e-9)  # two equal shares
    order = sorted(range(len(weights)), key=weights.__getitem__)
    assert [found[i] for i in order] == sorted(found)
    assert all(new <= old for new, old in zip(found, weights, strict=True))
    assert capped(found) == pytest.approx(found)


@given(WEIGHTS)
@settings(max_examples=50)
def test_as_few_as_need_be_are_capped(weights: list[float]):
    """What is below the cap stays, and the cap is as high as it can be: the largest has its whole share."""
    found = capped(weights)
    changed = [new for new, old in zip(found, weights, strict=True) if new != old]
    if changed:
        assert len(set(changed)) == 1
        share = 2.0 / (len(weights) + 1)
        assert changed[0] / sum(found) == pytest.approx(share)


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ([100.0, 90.0, 80.0], [100.0, 90.0, 80.0]),
        ([6.4e6, 100.0], [200.0, 100.0]),
        ([6.4e6, 100.0, 100.0], [200.0, 100.0, 100.0]),
        ([6.4e6, 6.4e6, 100.0], [6.4e6, 6.4e6, 100.0]),
        ([7.0], [7.0]),
    ],
)
def test_weights_that_are_capped(weights: list[float], expected: list[float]):
    assert capped(weights) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"privacy": "off", "weights": "noise"}, "weights = 'noise': expected declared or uniform with")],
)
def test_impossible_settings_of_weights_are_refused(settings, words):
    with pytest.raises(ConfigError, match=words):
        RunConfig(**settings)
