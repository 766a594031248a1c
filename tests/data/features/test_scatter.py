"""The scattering transform: what it computes, of which images, and of one record alone."""

import sys
import warnings

import numpy as np
import pytest
import torch

from fl_dp.data.features import scatter
from fl_dp.data.features.scatter import _deviations, made_up_images, of, shape
from fl_dp.data.fixed_features import features_of
from fl_dp.errors import ConfigError, DataError

pytest.importorskip("kymatio")


def images(n: int, channels: int = 1, side: int = 12) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (n, channels, side, side), generator=generator, dtype=torch.uint8)


@pytest.mark.parametrize(("depth", "paths"), [(1, 9), (2, 81)])
def test_it_is_kymatios_own_in_numpy(depth: int, paths: int) -> None:
    with warnings.catch_warnings():
        from kymatio.scattering2d.frontend.numpy_frontend import ScatteringNumPy2D
    x = images(3, channels=2, side=13)
    wanted = ScatteringNumPy2D(J=depth, shape=(13, 13), L=8)(x.numpy().astype(np.float64) / 255)
    assert wanted.shape[2] == paths
    found = of(x, str(depth))
    torch.testing.assert_close(found, torch.from_numpy(wanted).flatten(1, 2).float(), atol=1e-6, rtol=0)


def test_of_one_colour_nothing_but_its_mean_is_left() -> None:
    found = of(torch.full((1, 1, 8, 8), 51, dtype=torch.uint8), "1")[0]
    torch.testing.assert_close(found[0], torch.full((4, 4), 0.2), atol=1e-3, rtol=0)
    assert found[1:].abs().max() < 1e-6
    assert torch.equal(of(images(2).float() / 255, "1"), of(images(2), "1"))  # what is no byte is not scaled


def test_scaled_each_path_has_deviation_1_over_made_up_images_for_ever() -> None:
    found = of(made_up_images(2**18 // 16**2, (16, 16)), "1,scaled")
    assert found.shape == (1024, 9, 8, 8)
    torch.testing.assert_close(found.std((0, 2, 3)), torch.ones(9), atol=1e-3, rtol=0)
    # of 4,096 images of 8x8 pixels, as they were when `scaled` came
    first = [0.193669, 0.011743, 0.010310, 0.011781, 0.016661, 0.011835, 0.010460, 0.011846, 0.016656]
    torch.testing.assert_close(_deviations(1, (8, 8)), torch.tensor(first), rtol=2e-4, atol=0)


def test_scaling_looks_at_no_record() -> None:
    """Each path is divided by one number, the same for all records, places and channels."""
    for x in (images(5, channels=3) // 8, images(5, channels=3)):
        ratios = (of(x, "1") / of(x, "1,scaled")).view(5, 3, 9, -1)
        torch.testing.assert_close(ratios, ratios[:1, :1, :, :1].expand_as(ratios), rtol=1e-4, atol=0)
        torch.testing.assert_close(ratios[0, 0, :, 0], _deviations(1, (12, 12)), rtol=1e-4, atol=0)


@pytest.mark.parametrize(("side", "count"), [(16, 1024), (90, 32), (128, 32)])
def test_large_images_are_scaled_by_few_made_up_ones(
    side: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    monkeypatch.setattr(scatter, "made_up_images", lambda n, size: made.append(n) or torch.zeros(n, 1, *size))
    monkeypatch.setattr(scatter, "_transformed", lambda pixels, depth, size: pixels[:, :, None, :4, :4])
    _deviations.__wrapped__(1, (side, side))
    assert made == [count]


@pytest.mark.parametrize(
    ("depth", "channels", "side"), [("1", 1, 8), ("2", 1, 28), ("2", 3, 32), ("1,scaled", 3, 8)]
)
def test_a_records_features_are_its_own_to_the_last_bit(depth: str, channels: int, side: int) -> None:
    x = images(9, channels, side)
    together = of(x, depth)
    alone = torch.cat([of(one, depth) for one in x.split(1)])
    assert torch.equal(together, alone)
    backwards = of(x.flip(0), depth).flip(0)
    assert torch.equal(together, backwards)


@pytest.mark.parametrize(
    ("record", "argument", "expected"),
    [
        ((1, 28, 28), "2", (81, 7, 7)),
        ((3, 32, 32), "2", (243, 8, 8)),
        ((1, 8, 8), "1", (9, 4, 4)),
        ((2, 8, 8), "1,scaled", (18, 4, 4)),
        ((1, 8, 8), "2", (81, 2, 2)),
        ((1, 17, 30), "3", (217, 2, 3)),
    ],
)
def test_shapes(record: tuple[int, ...], argument: str, expected: tuple[int, ...]) -> None:
    assert shape(record, argument) == expected
    assert of(torch.zeros(1, *record), argument).shape[1:] == expected
    assert of(torch.zeros(0, *record), argument).shape == (0, *expected)


@pytest.mark.parametrize(
    ("record", "name", "words"),
    [
        ((1, 7, 28), "scatter:2", r"images \(channels, height, width\) of at least 8x8 pixels for depth 2"),
        ((13,), "scatter", r"expected images \(channels, height, width\)"),
        ((1, 28, 28), "scatter:02", "expected a depth from 1 to 6"),
        ((1, 28, 28), "scatter:deep", "expected a depth from 1 to 6"),
        ((1, 28, 28), "scatter:2,standardized", "6, alone or with ,scaled behind it"),
    ],
)
def test_what_has_no_features_is_refused(record: tuple[int, ...], name: str, words: str) -> None:
    features = features_of(name)
    assert features is not None
    with pytest.raises(DataError, match=words):
        features.shape(record)


def test_importing_it_changes_nothing_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [one for one in sys.modules if one.partition(".")[0] == "kymatio"]:
        monkeypatch.delitem(sys.modules, name)
    scatter._transform.cache_clear()
    before = warnings.filters[:], torch.get_num_threads(), torch.get_default_dtype()
    of(torch.zeros(1, 1, 8, 8), "1")
    assert "kymatio" in sys.modules
    assert (warnings.filters[:], torch.get_num_threads(), torch.get_default_dtype()) == before


def test_without_kymatio_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kymatio", None)
    with pytest.raises(ConfigError, match=r"needs the package kymatio, .* pip install kymatio, or the extra"):
        shape((1, 28, 28), "2")


def test_pixels_have_a_photographs_range() -> None:
    images = made_up_images(200, (24, 32))
    assert images.shape == (200, 1, 24, 32)
    assert 0.0 <= float(images.min()) < float(images.max()) <= 1.0
    assert abs(float(images.mean()) - 0.5) < 0.03
    assert abs(float(images.std()) - 0.25) < 0.03


def test_amplitudes_fall_with_the_frequency_to_the_power_of_1_2() -> None:
    """Of a line of pixels the power falls with an exponent smaller by 1 than that of the plane, 2.4 - 1."""
    lines = made_up_images(100, (128, 128)).numpy()[:, 0]
    window = np.hanning(128)
    power = (np.abs(np.fft.rfft((lines - lines.mean()) * window)) ** 2).mean((0, 1))
    frequency = np.arange(4, 32)
    slope = np.polyfit(np.log(frequency), np.log(power[4:32]), 1)[0]
    assert abs(slope + 1.4) < 0.15


def test_they_are_the_same_ones_in_every_version() -> None:
    """Features are scaled by them: sites that compute others, or a model's next user, would have others."""
    images = made_up_images(2, (8, 10))
    assert not images[0].equal(images[1])
    row = [0.355518, 0.335996, 0.014038, 0.043048, 0.087132, 0.0, 0.0, 0.028473, 0.376663, 0.270852]
    assert images[1, 0, 3].tolist() == pytest.approx(row, abs=1e-5)
    assert images.double().sum().item() == pytest.approx(62.762263, abs=1e-4)
