"""What an update counts in the average."""

import pytest
import torch

from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.federation.server.weights import weight_of
from fl_dp.records import ClientProfile, Entry


def profile(size: int) -> ClientProfile:
    return ClientProfile("a", size, 3.0, 1e-5, (), "pld")


def test_by_size_or_all_alike() -> None:
    assert weight_of("declared", profile(250), Entry(0.1, 1.0, 3)) == 250.0
    assert weight_of("uniform", profile(250), Entry(0.1, 1.0, 3)) == 1.0


def test_by_noise_it_is_the_inverse_of_the_updates_variance() -> None:
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


def test_without_privacy_there_is_no_noise_to_weigh_by() -> None:
    with pytest.raises(ConfigError, match="weights = 'noise': expected declared or uniform beside"):
        RunConfig(privacy="off", weights="noise")
