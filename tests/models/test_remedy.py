"""The models that an error recommends take the data that it speaks of."""

import re

import pytest

from fl_dp.errors import ModelError
from fl_dp.form import Form
from fl_dp.models.build import build_model, remedy

TABLE, WINDOW, IMAGE, CUBE = Form((13,), 2), Form((32, 3), 2), Form((1, 8, 8), 10), Form((2, 2, 2, 2), 2)
TEXT, NEXT = Form((16,), 2, vocabulary=50), Form((16,), 50, "tokens", vocabulary=50)


@pytest.mark.parametrize(
    ("form", "named"),
    [
        (TABLE, {"linear", "mlp"}), (WINDOW, {"cnn1d", "linear", "mlp"}), (IMAGE, {"linear", "mlp"}),
        (CUBE, {"linear", "mlp"}), (TEXT, {"transformer"}), (NEXT, {"transformer"}),
    ],
)  # fmt: skip
def test_each_model_that_is_named_fits(form: Form, named: set[str]) -> None:
    assert set(re.findall("linear|mlp|cnn1d|transformer", remedy(form).lower())) == named
    for name in named:
        build_model(name, form, seed=0)


@pytest.mark.parametrize(
    ("model", "form", "words"),
    [
        ("tanh-cnn", TABLE, r"of shape \(13,\): .* For rows of numbers, .* linear and mlp"),
        ("lenet-gn", IMAGE, r"scale the images \(image-size"),
        ("resnet18-gn", Form((3, 64, 16), 10), "made for images of 32x32 pixels and larger"),
        ("tanh-cnn", Form((3, 28, 32), 10), "made for images of 28x28 or 32x32 pixels"),
        ("tanh-cnn", Form((3, 32, 28), 10), "made for images of 28x28 or 32x32 pixels"),
        ("cnn1d", TABLE, "there are linear and mlp"),
        ("mlp", TEXT, "For tokens there are transformer"),
    ],
)
def test_the_error_says_what_suits_the_data(model: str, form: Form, words: str) -> None:
    with pytest.raises(ModelError, match=words) as error:
        build_model(model, form, seed=0)
    assert str(error.value).endswith(remedy(form))
    assert ("image" in str(error.value).partition(": ")[2].lower()) == (model not in ("cnn1d", "mlp"))
