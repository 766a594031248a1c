"""The sizes of image that a fixed architecture was made for."""

from fl_dp.errors import ModelError


def expect_square_image(model: str, input_shape: tuple[int, ...], sides: tuple[int, ...]) -> tuple[int, int]:
    """(C, side) of square images (C, side, side) with a side among `sides`; else ModelError."""
    match input_shape:
        case (channels, height, width) if height == width and height in sides:
            return channels, height
    wanted = " or ".join(f"{side}x{side}" for side in sides)
    raise ModelError(
        f"model = {model!r}: made for images of {wanted} pixels, not for data of shape {input_shape}. "
        f"Choose another model or resize the data."
    )
