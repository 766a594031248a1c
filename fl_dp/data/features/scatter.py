"""The scattering transform of images: wavelets, moduli and local means, with nothing learned.

Oyallon and Mallat 2015 (arXiv 1412.8659). Tramèr and Boneh 2021 (arXiv 2011.11660) train small models with
DP-SGD on it. Filters and transform are kymatio's (Andreux et al. 2020, arXiv 1812.11214).

With `scaled`, each path has standard deviation 1 over made-up images, which depend on no record. This
replaces the paper's normalisation over all records, which is a query on them.
"""

import warnings
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fl_dp.data.fixed_features import Features
from fl_dp.optional import require_package

_ANGLES = 8  # of the wavelets; the filters' widths are made for this number
_MOST_DEPTH = 6
_PIXELS = 2**18  # transformed at a time: some 100 MiB
_MADE_UP_PIXELS, _FEWEST = 2**18, 32  # of all made-up images together; smallest number of images
_SCALED = ",scaled"
_FALL = 1.2
_MEAN, _DEVIATION = 0.5, 0.25  # of the pixels, before they are clipped to [0, 1]


def shape(record: tuple[int, ...], argument: str) -> tuple[int, ...]:
    """(C, H, W) of images to (C * paths, H / 2^J, W / 2^J), rounded down; J is the argument's DEPTH.

    paths: 1 + 8 J + 64 J (J - 1) / 2, of orders 0, 1 and 2: 9, 81, 217 for J = 1, 2, 3. ValueError for a
    shape that is no image, or has a side below 2^(J + 1) pixels; ConfigError without kymatio.
    """
    depth, _ = _parts(argument)
    require_package("kymatio", "features = 'scatter'")
    least = 2 ** (depth + 1)  # below, most of what is averaged is the image's mirrored edge
    match record:
        case (channels, height, width) if min(height, width) >= least:
            return channels * _paths(depth), height // 2**depth, width // 2**depth
    raise ValueError(
        f"expected images (channels, height, width) of at least {least}x{least} pixels for depth {depth}"
    )


def of(x: Tensor, argument: str) -> Tensor:
    """(n, C, H, W) images to (n, C * paths, h, w) float32, see `shape`; a channel's paths are adjacent.

    uint8 pixels are first scaled to [0, 1], as in the paper; others are used as they are.
    """
    depth, scaled = _parts(argument)
    pixels = x.float().div_(255.0) if x.dtype == torch.uint8 else x
    size = (int(x.shape[2]), int(x.shape[3]))
    found = _transformed(pixels, depth, size).flatten(1, 2)
    return found.div_(_deviations(depth, size).repeat(x.shape[1])[:, None, None]) if scaled else found


def _transformed(pixels: Tensor, depth: int, size: tuple[int, int]) -> Tensor:
    """(n, C, paths, h, w) of pixels (n, C, H, W)."""
    transform = _transform(depth, size)
    at_once = max(1, _PIXELS // max(1, pixels[0].numel())) if len(pixels) else 1
    with torch.no_grad():
        return torch.cat([transform(part.contiguous()) for part in torch.split(pixels, at_once)])


@lru_cache(maxsize=2)
def _deviations(depth: int, size: tuple[int, int]) -> Tensor:
    """(paths,) standard deviation of each path, over made-up images of that size and all positions."""
    count = max(_FEWEST, _MADE_UP_PIXELS // (size[0] * size[1]))
    return _transformed(made_up_images(count, size), depth, size).std((0, 1, 3, 4))


def _parts(argument: str) -> tuple[int, bool]:
    """The depth, and whether paths are scaled."""
    depth = argument.removesuffix(_SCALED)
    depths = {str(depth): depth for depth in range(1, _MOST_DEPTH + 1)}  # one way to write each
    if depth not in depths:
        raise ValueError(f"expected a depth from 1 to {_MOST_DEPTH}, alone or with {_SCALED} behind it")
    return depths[depth], argument.endswith(_SCALED)


def _paths(depth: int) -> int:
    return 1 + _ANGLES * depth + _ANGLES**2 * depth * (depth - 1) // 2


@lru_cache(maxsize=2)
def _transform(depth: int, size: tuple[int, ...]) -> Any:
    """kymatio's transform for images of that height and width."""
    with warnings.catch_warnings():  # its import sets its own filters
        # Late: it is optional. Not `from kymatio.torch`: its one-dimensional transform needs another SciPy.
        from kymatio.scattering2d.frontend.torch_frontend import ScatteringTorch2D
    return ScatteringTorch2D(J=depth, shape=size, L=_ANGLES)


def made_up_images(count: int, size: tuple[int, int]) -> Tensor:
    """(count, 1, H, W) float32 in [0, 1], of amplitudes as in photographs; the same in every process.

    Random fields: the amplitude spectrum of natural images is f^-a, with a = 1.2 in the mean of many
    photographs (Field 1987; Tolhurst, Tadmor, Chao 1992, Ophthalmic and Physiological Optics 12). They reveal
    nothing about any record.

    Each is cropped from a field twice as high and wide, because fields are periodic and images are not.
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


FEATURES = Features(of, shape, argument="DEPTH[,scaled]", default="2")
