"""Decodes images, and converts them to one size and colour mode if the settings say so."""

import io
import warnings
from collections.abc import Iterable

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from fl_dp.data.source import Reading
from fl_dp.errors import DataError

_CONVERTED = frozenset({"1", "L", "LA", "P", "RGB", "RGBA"})
Pixels = NDArray[np.uint8]


def stack(images: Iterable[tuple[str, bytes]], number: int, reading: Reading) -> Tensor:
    """uint8 (n, C, H, W) of `number` images, each with its name for errors; all must have one shape.

    DataError, which names the image, for one that cannot be read or has another shape than the first.
    """
    stacked, first_name = np.empty(0, dtype=np.uint8), ""
    for row, (name, content) in enumerate(images):
        pixels = _pixels(name, content, reading)
        if row == 0:
            stacked, first_name = np.empty((number, *pixels.shape), dtype=np.uint8), name
        if pixels.shape != stacked.shape[1:]:
            raise DataError(
                f"{name}: expected an image of shape {stacked.shape[1:]} (height, width, channels) like "
                f"{first_name.rpartition('/')[2]}, not {pixels.shape}; image-size and image-mode convert "
                "images to one shape."
            )
        stacked[row] = pixels
    if stacked.ndim == 3:
        return torch.from_numpy(stacked).unsqueeze(1)
    return torch.from_numpy(stacked).permute(0, 3, 1, 2).contiguous()


def _pixels(name: str, content: bytes, reading: Reading) -> Pixels:
    """uint8 (H, W) of a grey image or (H, W, 3) of a colour image."""
    try:
        with warnings.catch_warnings(), Image.open(io.BytesIO(content)) as image:
            warnings.simplefilter("ignore")  # Pillow warns about files that it reads nevertheless
            found = image.mode
            converted = _converted(image, reading)
            pixels = np.asarray(converted)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:  # what Pillow raises
        raise DataError(
            f"{name}: expected a readable image ({type(error).__name__}): it may be truncated, or not "
            "an image."
        ) from None
    if converted.mode not in ("L", "RGB"):
        raise DataError(f"{name}: expected an image of colour mode L or RGB, not {found}; {_way_out(found)}")
    return pixels


def _way_out(mode: str) -> str:
    if mode in _CONVERTED:
        return f"image-mode converts {', '.join(sorted(_CONVERTED))} to one."
    if mode.startswith(("I", "F")):
        return "it has more than 8 bits a pixel: convert it to 8 bits first, such as value // 256."
    return "convert it to L or RGB first."


def _converted(image: Image.Image, reading: Reading) -> Image.Image:
    """Convert to the size and mode of the settings. Transparent pixels keep their underlying colour."""
    if reading.image_mode and image.mode in _CONVERTED:
        if image.mode == "P":
            image = image.convert("RGBA")
        image = image.convert(reading.image_mode)
    size = reading.image_size
    if size and image.mode in ("L", "RGB") and image.size != (size, size):
        image = image.resize((size, size), Image.Resampling.BICUBIC)
    return image
