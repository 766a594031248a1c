import pytest

from fl_dp.errors import ModelError
from fl_dp.models.image_size import expect_square_image


def test_channels_and_side() -> None:
    assert expect_square_image("m", (3, 32, 32), (28, 32)) == (3, 32)


@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 32), (28, 28), (784,)])
def test_another_size_is_refused_by_model_and_shape(shape: tuple[int, ...]) -> None:
    with pytest.raises(ModelError, match="'m': made for images of 28x28 or 32x32 pixels") as error:
        expect_square_image("m", shape, (28, 32))
    assert str(shape) in str(error.value)
