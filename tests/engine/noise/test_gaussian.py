"""Noise has the stated standard deviation, comes from full entropy, and is never nothing."""

import math

import pytest
import torch

from fl_dp.engine.clipping import ClippedSum
from fl_dp.engine.noise.gaussian import add_gaussian_noise
from fl_dp.engine.noise.generators import system_generator
from fl_dp.engine.noise.grid import noise_grid
from fl_dp.engine.noise.randomness import Randomness
from fl_dp.engine.sum_error import MOST_IN_FLOAT32, sum_error
from fl_dp.errors import ConfigError


def _noisy(grad, multiplier=1.0, generator="secure", *, sensitivity=1.0):
    clipped = ClippedSum({"w": grad}, sensitivity, torch.zeros(0))
    return add_gaussian_noise(clipped, noise_multiplier=multiplier, generator=generator)["w"]


@pytest.mark.parametrize("multiplier", [0.5, 1.1, 8.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("generator", [torch.Generator().manual_seed(7), "secure"], ids=["seeded", "secure"])
def test_standard_deviation_is_multiplier_times_sensitivity(multiplier, dtype, generator):
    noise = _noisy(torch.zeros(40_000, dtype=dtype), multiplier, generator, sensitivity=2.0)
    n, sigma = len(noise), 2.0 * multiplier
    assert abs(float(noise.mean())) < 5 * sigma / math.sqrt(n)
    assert abs(float(noise.std()) / sigma - 1) < 5 / math.sqrt(2 * n)
    kurtosis = float((noise / sigma).pow(4).mean())
    assert abs(kurtosis - 3) < 5 * math.sqrt(96 / n)


@pytest.mark.parametrize("generator", [torch.Generator(), "secure"], ids=["seeded", "secure"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_noise_is_in_float32_at_least_and_the_shape_stays(generator, dtype):
    shapes = {"w": (2, 3), "scalar": (), "empty": (0, 4)}
    clipped = ClippedSum({n: torch.zeros(s, dtype=dtype) for n, s in shapes.items()}, 1.0, torch.zeros(0))
    noisy = add_gaussian_noise(clipped, noise_multiplier=1.0, generator=generator)
    assert {name: noise.shape for name, noise in noisy.items()} == shapes
    assert {noise.dtype for noise in noisy.values()} == {torch.promote_types(dtype, torch.float32)}
    nothing = ClippedSum({}, 1.0, torch.zeros(0))
    assert add_gaussian_noise(nothing, noise_multiplier=1.0, generator=generator) == {}


@pytest.mark.parametrize(
    ("multiplier", "sensitivity", "generator", "words"),
    [
        *((bad, 2.0, torch.Generator(), "noise_multiplier") for bad in (0.0, -1.0, math.nan, math.inf)),
        (1.0, math.inf, torch.Generator(), "sensitivity=inf"),
        (1.0, 2.0, "os", r"'os'.*'secure'"),
    ],
)
def test_what_protects_nothing_is_refused(multiplier, sensitivity, generator, words):
    with pytest.raises(ConfigError, match=words):
        _noisy(torch.zeros(9), multiplier, generator, sensitivity=sensitivity)


def _source(number=0):
    return Randomness(bytes([number]) * 32)


def _grid(noise_multiplier, count):
    return noise_grid(1.0, noise_multiplier, count, sum_error(MOST_IN_FLOAT32))


def _multiples(values, noise_multiplier, generator):
    """The released numbers in units of the public grid; as float64, so that none is rounded."""
    unit = _grid(noise_multiplier, len(values)).spacing
    return _noisy(torch.as_tensor(values, dtype=torch.float64), noise_multiplier, generator) / unit


@pytest.mark.parametrize("generator", ["secure", _source()], ids=["secure", "keyed"])
@pytest.mark.parametrize("values", [[0.0] * 500, [0.1, -0.3, 1e-9, 0.7, 123.456] * 100])
def test_what_is_released_lies_on_the_public_grid(values, generator):
    found = _multiples(values, 1.3, generator)
    assert torch.allclose(found, found.round(), rtol=0, atol=1e-6)
    assert len(found.round().unique()) > 490


def test_the_noise_covers_the_nearest_multiples_of_the_sum():
    values, grid = torch.linspace(-2, 2, 300, dtype=torch.float64), _grid(0.7, 300)
    noise = _multiples(values, 0.7, _source()) - torch.round(values / grid.spacing)
    assert torch.allclose(noise, noise.round(), rtol=0, atol=1e-6)
    assert 0.8 < float(noise.std()) * grid.spacing / grid.deviation < 1.2


def test_a_key_gives_the_same_noise_for_the_same_sum_and_other_noise_for_any_other():
    """Also for equal integers on another grid: a sum of exactly zero is zero on every grid."""
    one, zero = [0.1] * 64, [0.0] * 64
    first, again = (_multiples(one, 1.0, _source()) for _ in range(2))
    assert torch.equal(first, again)
    a_unit_more = [*one[:-1], 0.1 + 2 * _grid(1.0, 64).spacing]
    others = (_multiples(a_unit_more, 1.0, _source()), first), (_multiples(one, 1.0, _source(1)), first)
    grids = _multiples(zero, 1.0, _source()), _multiples(zero, 2.0, _source())
    for found, other in (*others, grids):
        assert bool(((other - found).abs() > 0.5).all())


def test_each_number_of_a_sum_stays_at_its_place_and_has_noise_of_its_own_in_any_layout():
    values = torch.arange(3 * 4 * 5 * 6, dtype=torch.float64).view(3, 4, 5, 6)
    for grad in (
        values.to(memory_format=torch.channels_last),
        values.permute(2, 0, 3, 1),
        values[:, ::2],
        values[:, :1, :1, :1].expand(3, 4, 7, 2),
        values[0, 0].t(),
    ):
        torch.testing.assert_close(_noisy(grad, sensitivity=1e-6), grad.contiguous(), rtol=0, atol=1e-3)
        noise = _noisy(grad) - grad
        assert len(noise.unique()) == noise.numel()


@pytest.mark.parametrize("kind", [torch.complex64, torch.complex128])
def test_complex_numbers_may_stand_after_an_odd_number_of_real_ones(kind):
    """An error here would end a round that is paid for."""
    sums = {
        "real": torch.zeros(3, dtype=torch.float64),
        "complex": torch.full((2, 2), 5e9 + 7e9j, dtype=kind),
    }
    clipped = ClippedSum(sums, 1.0, torch.zeros(0))
    found = add_gaussian_noise(clipped, noise_multiplier=1.0, generator="secure")
    assert torch.allclose(found["complex"], sums["complex"], rtol=1e-6)
    assert found["real"].shape == (3,)


def test_values_beyond_the_integers_count_as_the_largest():
    found = _multiples([3e38, -3e38, 0.0], 1.0, "secure")
    assert found[:2].tolist() == pytest.approx([2.0**62, -(2.0**62)], rel=1e-9)


@pytest.mark.parametrize(
    "generator", ["secure", _source(), system_generator()], ids=["secure", "keyed", "system"]
)
def test_numbers_keep_their_places_in_models_of_many_small_and_a_few_large_layers(generator):
    values = torch.arange(142_783, dtype=torch.float64)
    parts = values.split([3, 40_000, 1, 70_000, 0, 5, 32_768, 6])
    clipped = ClippedSum({str(i): part for i, part in enumerate(parts)}, 1e-6, torch.zeros(0))
    noisy = add_gaussian_noise(clipped, noise_multiplier=1.0, generator=generator)
    found = torch.cat([noisy[name] for name in clipped.grads])
    torch.testing.assert_close(found, values, rtol=0, atol=1e-4)
    noise = found - values
    assert float((noise[1:] == noise[:-1]).double().mean()) < 0.01
    assert abs(float(noise.std()) / 1e-6 - 1) < 0.02
