"""Checks that an architecture suits the data: ValueError, with the reason, if not."""

from fl_dp.form import Form


def expect_numbers(form: Form) -> None:
    """ValueError for inputs or targets that are tokens."""
    if form.vocabulary:
        raise ValueError("it takes numbers, not tokens")
    if form.targets == "tokens":
        raise ValueError("it gives one answer for each example, not one for each token")


def expect_square_image(form: Form, sides: tuple[int, ...]) -> tuple[int, int]:
    """(C, side) of square images (C, side, side) with a side among `sides`; else ValueError."""
    expect_numbers(form)
    match form.input_shape:
        case (channels, height, width) if height == width and height in sides:
            return channels, height
    wanted = " or ".join(f"{side}x{side}" for side in sides)
    raise ValueError(f"it is made for images of {wanted} pixels")


def expect_image(form: Form, least: int) -> tuple[int, int, int]:
    """(C, H, W) of images with sides of at least `least` pixels; else ValueError."""
    expect_numbers(form)
    match form.input_shape:
        case (channels, height, width) if min(height, width) >= least:
            return channels, height, width
    raise ValueError(f"it is made for images of at least {least}x{least} pixels")


def expect_windows(form: Form) -> tuple[int, int]:
    """(T, channels) of windows of numbers over time; else ValueError."""
    expect_numbers(form)
    match form.input_shape:
        case (length, channels):
            return length, channels
    raise ValueError("it takes windows of shape (time steps, channels)")


def expect_tokens(form: Form) -> int:
    """The number of tokens of an example; ValueError if inputs are not tokens."""
    match form.input_shape:
        case (length,) if form.vocabulary:
            return length
    raise ValueError("it takes tokens, not numbers")
