"""What kind of data an architecture was made for: ValueError, with the reason, for others."""

from fl_dp.form import Form


def expect_numbers(form: Form) -> None:
    """ValueError for tokens."""
    if form.vocabulary:
        raise ValueError("it takes numbers, not tokens")


def expect_one_answer(form: Form) -> None:
    """ValueError where an answer is wanted at each place."""
    if form.targets == "tokens":
        raise ValueError("it gives one answer an example, not one for each token")


def expect_square_image(form: Form, sides: tuple[int, ...]) -> tuple[int, int]:
    """(C, side) of square images (C, side, side) with a side among `sides`; else ValueError."""
    expect_numbers(form)
    expect_one_answer(form)
    match form.input_shape:
        case (channels, height, width) if height == width and height in sides:
            return channels, height
    wanted = " or ".join(f"{side}x{side}" for side in sides)
    raise ValueError(f"it is made for images of {wanted} pixels")
