"""Secure noise is normal to its tails, independent, and made of four numbers that are."""

import math
from statistics import NormalDist

import torch

from fl_dp.engine.secure_noise import normal_from_bits, secure_normal


def test_its_distribution_is_normal():
    """Kolmogorov and Smirnov: the largest distance of the distribution functions, at 1 in 10^8."""
    n = 50_000
    numbers = secure_normal(torch.Size([n])).sort().values
    exact = torch.special.ndtr(numbers)
    steps = torch.arange(n + 1, dtype=torch.float64) / n
    distance = float(torch.maximum(exact - steps[:-1], steps[1:] - exact).max())
    assert distance < math.sqrt(math.log(2e8) / (2 * n))


def test_numbers_are_independent_within_and_between_draws():
    n = 50_000
    first, second = secure_normal(torch.Size([n])), secure_normal(torch.Size([n]))
    for a, b in ((first[1:], first[:-1]), (first, second), (first[1:] ** 2 - 1, first[:-1])):
        assert abs(float((a * b).mean())) < 6 * 2 / math.sqrt(n)
    assert len(torch.cat([first, second]).unique()) == 2 * n


def test_a_number_is_half_the_sum_of_four_normal_numbers():
    bits = torch.randint(-(2**63), 2**63 - 1, (4 * 7,), generator=torch.Generator().manual_seed(0))
    for i, found in enumerate(normal_from_bits(bits).tolist()):
        summands = [
            NormalDist().inv_cdf(((word >> 11) + 2**52 + 0.5) / 2**53) for word in bits[i::7].tolist()
        ]
        assert math.isclose(found, sum(summands) / 2, rel_tol=1e-9, abs_tol=1e-9)


def test_the_extremes_of_the_bits_are_finite_and_symmetric():
    least = normal_from_bits(torch.tensor([-(2**63)] * 4))
    most = normal_from_bits(torch.tensor([2**63 - 1] * 4))
    assert 15 < float(most) < 20
    assert torch.equal(least, -most)


def test_shapes_that_are_not_a_multiple_of_anything():
    for shape in ((), (0,), (3, 0), (1,), (5, 7), (8193,)):
        numbers = secure_normal(torch.Size(shape))
        assert numbers.shape == shape
        assert bool(numbers.isfinite().all())
        assert not bool((numbers == 0).any())
