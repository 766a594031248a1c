"""The sizes of image that a fixed architecture was made for."""


def expect_square_image(input_shape: tuple[int, ...], sides: tuple[int, ...]) -> tuple[int, int]:
    """(C, side) of square images (C, side, side) with a side among `sides`; else ValueError."""
    match input_shape:
        case (channels, height, width) if height == width and height in sides:
            return channels, height
    wanted = " or ".join(f"{side}x{side}" for side in sides)
    raise ValueError(f"it is made for images of {wanted} pixels")
