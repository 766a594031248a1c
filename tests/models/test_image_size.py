import pytest

from fl_dp.models.image_size import expect_square_image


def test_channels_and_side() -> None:
    assert expect_square_image((3, 32, 32), (28, 32)) == (3, 32)


@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 32), (1, 32, 28), (28, 28), (784,)])
def test_another_size_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="made for images of 28x28 or 32x32 pixels"):
        expect_square_image(shape, (28, 32))
