"""Noise has the stated standard deviation, comes from full entropy, and is never nothing."""

import math

import pytest
import torch

from fl_dp.engine.clipping import ClippedSum
from fl_dp.engine.noise.gaussian import add_gaussian_noise
from fl_dp.engine.noise.generators import system_generator
from fl_dp.engine.noise.grid import noise_grid
from fl_dp.engine.noise.randomness import Randomness
from fl_dp.errors import ConfigError


def _zeros(sensitivity=2.0, n=40_000, dtype=torch.float32):
    return ClippedSum({"w": torch.zeros(n, dtype=dtype), "b": torch.zeros(10)}, sensitivity, torch.zeros(0))


@pytest.mark.parametrize("multiplier", [0.5, 1.1, 8.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("generator", [torch.Generator().manual_seed(7), "secure"], ids=["seeded", "secure"])
def test_standard_deviation_is_multiplier_times_sensitivity(multiplier, dtype, generator):
    noise = add_gaussian_noise(_zeros(dtype=dtype), noise_multiplier=multiplier, generator=generator)["w"]
    n, sigma = len(noise), 2.0 * multiplier
    assert abs(float(noise.mean())) < 5 * sigma / math.sqrt(n)
    assert abs(float(noise.std()) / sigma - 1) < 5 / math.sqrt(2 * n)
    kurtosis = float((noise / sigma).pow(4).mean())
    assert abs(kurtosis - 3) < 5 * math.sqrt(96 / n)


@pytest.mark.parametrize("generator", [torch.Generator().manual_seed(0), "secure"], ids=["seeded", "secure"])
def test_noise_is_added_to_the_sum(generator):
    clipped = ClippedSum({"w": torch.full((50,), 100.0)}, 1e-3, torch.zeros(0))
    noisy = add_gaussian_noise(clipped, noise_multiplier=1.0, generator=generator)
    assert torch.allclose(noisy["w"], clipped.grads["w"], atol=0.01)
    assert not torch.equal(noisy["w"], clipped.grads["w"])


def test_same_generator_state_same_noise():
    draws = [
        add_gaussian_noise(_zeros(), noise_multiplier=1.0, generator=torch.Generator().manual_seed(3))["w"]
        for _ in range(2)
    ]
    assert torch.equal(*draws)


@pytest.mark.parametrize("generator", [system_generator(), "secure"], ids=["system", "secure"])
def test_parameters_get_noise_of_their_own(generator):
    clipped = ClippedSum({"a": torch.zeros(9), "b": torch.zeros(9)}, 1.0, torch.zeros(0))
    noisy = add_gaussian_noise(clipped, noise_multiplier=1.0, generator=generator)
    assert not torch.equal(noisy["a"], noisy["b"])


@pytest.mark.parametrize("generator", [torch.Generator(), "secure"], ids=["seeded", "secure"])
@pytest.mark.parametrize(
    ("dtype", "noisy_dtype"),
    [
        (torch.float16, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
    ],
)
def test_noise_is_in_float32_at_least_and_the_shape_stays(generator, dtype, noisy_dtype):
    grads = {"w": torch.zeros(2, 3, dtype=dtype), "scalar": torch.zeros((), dtype=dtype)}
    noisy = add_gaussian_noise(
        ClippedSum({**grads, "empty": torch.zeros(0, 4, dtype=dtype)}, 1.0, torch.zeros(0)),
        noise_multiplier=1.0,
        generator=generator,
    )
    assert {name: noise.shape for name, noise in noisy.items()} == {
        "w": (2, 3),
        "scalar": (),
        "empty": (0, 4),
    }
    assert {noise.dtype for noise in noisy.values()} == {noisy_dtype}


@pytest.mark.parametrize("multiplier", [0.0, -1.0, float("nan"), float("inf")])
def test_a_multiplier_that_protects_nothing_is_refused(multiplier):
    with pytest.raises(ConfigError, match="noise_multiplier"):
        add_gaussian_noise(_zeros(), noise_multiplier=multiplier, generator=torch.Generator())


def test_an_unbounded_sum_is_refused():
    with pytest.raises(ConfigError, match="sensitivity=inf"):
        add_gaussian_noise(_zeros(math.inf), noise_multiplier=1.0, generator=torch.Generator())


def test_a_source_that_is_not_known_is_refused():
    with pytest.raises(ConfigError, match=r"'os'.*'secure'"):
        add_gaussian_noise(_zeros(), noise_multiplier=1.0, generator="os")


def _source(number=0):
    return Randomness(bytes([number]) * 32)


def _sum(values, sensitivity=1.0):
    return ClippedSum({"w": torch.as_tensor(values)}, sensitivity, torch.zeros(0))


def _multiples(clipped, noise_multiplier, generator):
    """The released numbers in units of the public grid."""
    grads = {name: grad.double() for name, grad in clipped.grads.items()}  # so that they come out as float64
    released = add_gaussian_noise(
        ClippedSum(grads, clipped.sensitivity, clipped.norms),
        noise_multiplier=noise_multiplier,
        generator=generator,
    )
    count = sum(grad.numel() for grad in grads.values())
    unit = noise_grid(clipped.sensitivity, noise_multiplier, count).spacing
    return torch.cat([grad.flatten() for grad in released.values()]) / unit


@pytest.mark.parametrize("generator", ["secure", _source()], ids=["secure", "keyed"])
@pytest.mark.parametrize("values", [[0.0] * 500, [0.1, -0.3, 1e-9, 0.7, 123.456] * 100])
def test_what_is_released_lies_on_the_public_grid(values, generator):
    found = _multiples(_sum(values), 1.3, generator)
    assert torch.allclose(found, found.round(), rtol=0, atol=1e-6)
    assert len(found.round().unique()) > 490


def test_the_noise_covers_the_nearest_multiples_of_the_sum():
    clipped = _sum(torch.linspace(-2, 2, 300, dtype=torch.float64))
    grid = noise_grid(1.0, 0.7, 300)
    found = _multiples(clipped, 0.7, _source())
    units = torch.round(clipped.grads["w"] / grid.spacing)
    noise = found - units
    assert torch.allclose(noise, noise.round(), rtol=0, atol=1e-6)
    assert 0.8 < float(noise.std()) * grid.spacing / grid.deviation < 1.2


def test_a_key_gives_the_same_noise_for_the_same_sum_and_other_noise_for_any_other():
    one = _sum([0.1] * 64)
    first, again = (_multiples(one, 1.0, _source()) for _ in range(2))
    assert torch.equal(first, again)
    a_unit_more = _sum([0.1] * 63 + [0.1 + 2 * noise_grid(1.0, 1.0, 64).spacing])
    for other in (_multiples(a_unit_more, 1.0, _source()), _multiples(one, 1.0, _source(1))):
        assert bool(((other - first).abs() > 0.5).all())


def test_a_sum_counts_as_its_nearest_multiples():
    unit = noise_grid(1.0, 1.0, 9).spacing
    at = torch.arange(-4, 5, dtype=torch.float64)
    moved = (_sum((at + off) * unit) for off in (0.0, 0.4, -0.4))
    exactly, *nearly = (_multiples(each, 1.0, _source()) for each in moved)
    for found in nearly:
        assert torch.equal(found, exactly)


def test_equal_integers_on_another_grid_get_other_noise():
    """A sum of exactly zero is zero on every grid: equal noise would show it in two releases."""
    zero = _sum([0.0] * 64)
    one, other = (_multiples(zero, multiplier, _source()) for multiplier in (1.0, 2.0))
    assert bool(((one - other).abs() > 0.5).all())


def test_numbers_in_any_layout_of_memory_get_noise_of_their_own():
    base = torch.zeros(3, 4, 5, 6)
    for grad in (base, base.to(memory_format=torch.channels_last), base.permute(2, 0, 3, 1), base[:, ::2],
                 torch.zeros(1).expand(4, 7), torch.zeros(6, 4).t()):  # fmt: skip
        noisy = add_gaussian_noise(
            ClippedSum(
                {"w": grad + 0 if grad.dim() == 2 and 0 in grad.stride() else grad}, 1.0, torch.zeros(0)
            ),
            noise_multiplier=1.0,
            generator="secure",
        )["w"]
        assert noisy.shape == grad.shape
        # in float32 two of a few hundred meet by chance, in one of a hundred runs
        assert len(noisy.unique()) >= noisy.numel() - 3


def test_each_number_of_a_sum_stays_at_its_place_in_any_layout():
    values = torch.arange(3 * 4 * 5 * 6.0).view(3, 4, 5, 6)
    for grad in (values.to(memory_format=torch.channels_last), values.permute(2, 0, 3, 1), values[:, ::2],
                 torch.arange(4.0)[:, None].expand(4, 7)):  # fmt: skip
        noisy = add_gaussian_noise(
            ClippedSum({"w": grad}, 1e-6, torch.zeros(0)), noise_multiplier=1.0, generator="secure"
        )["w"]
        torch.testing.assert_close(noisy, grad.contiguous(), rtol=0, atol=1e-3)


@pytest.mark.parametrize(
    "generator", ["secure", _source(), torch.Generator().manual_seed(1)], ids=["secure", "keyed", "seeded"]
)
def test_both_parts_of_a_complex_number_get_the_whole_noise(generator):
    clipped = ClippedSum({"w": torch.zeros(40_000, dtype=torch.complex64)}, 2.0, torch.zeros(0))
    noisy = add_gaussian_noise(clipped, noise_multiplier=1.5, generator=generator)["w"]
    assert noisy.dtype == torch.complex64
    for part in (noisy.real, noisy.imag):
        assert abs(float(part.std()) / 3.0 - 1) < 5 / math.sqrt(80_000) + 0.002


def test_values_beyond_the_integers_count_as_the_largest():
    found = _multiples(_sum(torch.tensor([3e38, -3e38, 0.0])), 1.0, "secure")
    assert float(found[0]) == pytest.approx(2.0**62, rel=1e-9)
    assert float(found[1]) == pytest.approx(-(2.0**62), rel=1e-9)


def test_no_noise_for_a_sum_of_no_numbers():
    assert (
        add_gaussian_noise(ClippedSum({}, 1.0, torch.zeros(0)), noise_multiplier=1.0, generator="secure")
        == {}
    )


@pytest.mark.parametrize("generator", ["secure", _source()], ids=["secure", "keyed"])
def test_numbers_keep_their_places_in_models_of_many_small_and_a_few_large_layers(generator):
    sizes = [3, 40_000, 1, 70_000, 0, 5, 32_768, 2]
    start, grads = 0, {}
    for number, size in enumerate(sizes):
        grads[str(number)] = torch.arange(start, start + size, dtype=torch.float64)
        start += size
    noisy = add_gaussian_noise(
        ClippedSum(grads, 1e-6, torch.zeros(0)), noise_multiplier=1.0, generator=generator
    )
    found = torch.cat([noisy[name] for name in grads])
    torch.testing.assert_close(found, torch.arange(start, dtype=torch.float64), rtol=0, atol=1e-4)
    noise = found - torch.arange(start)
    assert float((noise[1:] == noise[:-1]).double().mean()) < 0.01
    assert abs(float(noise.std()) / 1e-6 - 1) < 0.02
