"""Synthetic images: random fields whose amplitudes fall with frequency as those of photographs do.

The amplitude spectrum of natural images is f^-a, with a = 1.2 in the mean of many photographs (Field 1987;
Tolhurst, Tadmor, Chao 1992, Ophthalmic and Physiological Optics 12). Knowledge of such fields is knowledge of
no record.
"""

import numpy as np
import torch
from torch import Tensor

_FALL = 1.2
_MEAN, _DEVIATION = 0.5, 0.25  # of the pixels, before they are clipped to [0, 1]


def made_up_images(count: int, size: tuple[int, int]) -> Tensor:
    """(count, 1, H, W) float32 in [0, 1]; the same in every process.

    Each is cropped from a field twice as high and wide: fields are periodic at their edges, images are not.
    """
    height, width = size
    rows, columns = np.fft.fftfreq(2 * height), np.fft.rfftfreq(2 * width)
    frequency = np.hypot(rows[:, None], columns)
    frequency[0, 0] = 1 / (2 * max(size))  # the mean's: as strong as the lowest frequency
    # RandomState's numbers are frozen: every version of NumPy draws the same.
    white = np.random.RandomState(0).standard_normal((count, 2 * height, 2 * width))
    fields = np.fft.irfft2(np.fft.rfft2(white) * frequency**-_FALL, s=(2 * height, 2 * width))
    fields *= _DEVIATION / fields.std()
    images = np.clip(fields[:, :height, :width] + _MEAN, 0.0, 1.0)
    return torch.from_numpy(images.astype(np.float32)).unsqueeze(1)
