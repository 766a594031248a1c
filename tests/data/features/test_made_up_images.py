"""Images that nobody took: in range, of the spectrum that is claimed, and the same ones everywhere."""

import numpy as np
import pytest

from fl_dp.data.features.scatter import made_up_images


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
