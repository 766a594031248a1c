"""The scattering transform of images: wavelets, moduli and local means, with nothing learned.

Oyallon and Mallat 2015 (arXiv 1412.8659). Tramèr and Boneh 2021 (arXiv 2011.11660) train small models with
DP-SGD on it. Filters and transform are kymatio's (Andreux et al. 2020, arXiv 1812.11214).
"""

import warnings
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from fl_dp.data.fixed_features import Features
from fl_dp.optional import require_package

_ANGLES = 8  # of the wavelets; the filters' widths are made for so many
_MOST_DEPTH = 6
_PIXELS = 2**18  # that are transformed at a time: some 100 MiB


def shape(record: tuple[int, ...], argument: str) -> tuple[int, ...]:
    """(C, H, W) of images to (C * paths, H / 2^J, W / 2^J), rounded down; J is the argument.

    paths: 1 + 8 J + 64 J (J - 1) / 2, of orders 0, 1 and 2: 9, 81, 217 for J = 1, 2, 3.
    ValueError for what is no image, or whose sides are shorter than 2^(J + 1) pixels; ConfigError without
    kymatio.
    """
    depth = _depth(argument)
    require_package("kymatio", "features = 'scatter'")
    least = 2 ** (depth + 1)  # below, most of what is averaged is the image's mirrored edge
    match record:
        case (channels, height, width) if min(height, width) >= least:
            return channels * _paths(depth), height // 2**depth, width // 2**depth
    raise ValueError(
        f"expected images (channels, height, width) of {least}x{least} pixels at least for depth {depth}"
    )


def of(x: Tensor, argument: str) -> Tensor:
    """(n, C, H, W) images to (n, C * paths, h, w) float32, see `shape`; all paths of a channel together.

    uint8 pixels are first scaled to [0, 1], as in the paper; others are taken as they are.
    """
    pixels = x.float().div_(255.0) if x.dtype == torch.uint8 else x
    transform = _transform(_depth(argument), tuple(x.shape[2:]))
    at_once = max(1, _PIXELS // max(1, x[0].numel())) if len(x) else 1
    with torch.no_grad():
        parts = [transform(part.contiguous()).flatten(1, 2) for part in torch.split(pixels, at_once)]
    return torch.cat(parts)


def _depth(argument: str) -> int:
    depths = {str(depth): depth for depth in range(1, _MOST_DEPTH + 1)}  # one way to write each
    if argument not in depths:
        raise ValueError(f"expected a depth from 1 to {_MOST_DEPTH}")
    return depths[argument]


def _paths(depth: int) -> int:
    return 1 + _ANGLES * depth + _ANGLES**2 * depth * (depth - 1) // 2


@lru_cache(maxsize=2)
def _transform(depth: int, size: tuple[int, ...]) -> Any:
    """kymatio's, for images of that height and width."""
    with warnings.catch_warnings():  # its import sets filters of its own
        # Not `from kymatio.torch`: that imports its one-dimensional transform, which SciPy 1.18 cannot.
        from kymatio.scattering2d.frontend.torch_frontend import ScatteringTorch2D
    return ScatteringTorch2D(J=depth, shape=size, L=_ANGLES)


FEATURES = Features(of, shape, argument="DEPTH", default="2")
