import pytest

from fl_dp.form import Form
from fl_dp.models.expect import expect_numbers, expect_one_answer, expect_square_image


def test_channels_and_side() -> None:
    assert expect_square_image(Form((3, 32, 32), 10), (28, 32)) == (3, 32)


@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 32), (1, 32, 28), (28, 28), (784,)])
def test_another_size_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="made for images of 28x28 or 32x32 pixels"):
        expect_square_image(Form(shape, 10), (28, 32))


def test_tokens_and_answers_for_each_of_them_are_refused() -> None:
    expect_numbers(Form((4,), 2))
    expect_one_answer(Form((4,), 2, "numbers"))
    with pytest.raises(ValueError, match="takes numbers, not tokens"):
        expect_numbers(Form((4,), 2, vocabulary=9))
    with pytest.raises(ValueError, match="one answer an example"):
        expect_one_answer(Form((4,), 9, "tokens", 9))
