import re

import pytest
import torch
from torch import nn

from fl_dp.choices import MODELS
from fl_dp.errors import ConfigError, ModelError
from fl_dp.form import Form
from fl_dp.models import build
from fl_dp.models.build import Model, build_model, remedy

UNKNOWN = ("resnet18", "", "tanh_cnn", "model")


@pytest.mark.parametrize("name", ["linear", "tanh-cnn", "lenet-gn", "torchvision:squeezenet1_1"])
def test_same_seed_same_weights(name: str) -> None:
    form = Form((1, 28, 28), 7)
    assert all(module.training for module in build_model(name, form, seed=5).modules())
    first, again, other = (build_model(name, form, seed).state_dict() for seed in (5, 5, 6))
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert any(not torch.equal(first[key], other[key]) for key in first)


def test_the_global_random_state_is_left_alone() -> None:
    before = torch.random.get_rng_state()
    build_model("lenet-gn", Form((1, 28, 28), 10), seed=1)
    with pytest.raises(ModelError):
        build_model("torchvision:squeezenet1_1", Form((1, 7, 7), 10), seed=1)
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        *((name, f"expected one of {len(MODELS.names())} names, see fl-dp keys model") for name in UNKNOWN),
        ("linear:x", "linear takes no argument; write linear"),
        ("mlp:", "mlp takes an argument; write mlp:WIDTHS"),
        ("torchvision", "torchvision takes an argument; write torchvision:NAME"),
        ("torchvision:", "torchvision takes an argument; write torchvision:NAME"),
    ],
)
def test_an_unknown_name_or_argument_is_refused(name: str, words: str) -> None:
    with pytest.raises(ConfigError, match=f"model = '{name}': {words}"):
        build_model(name, Form((1, 8, 8), 10), seed=0)


def test_logits_of_another_shape_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "choose_model", lambda name: (Model(lambda *arguments: nn.Identity()), ""))
    with pytest.raises(ModelError, match=r"expected outputs of shape \(2, 10\) .* not \(2, 1, 8, 8\)"):
        build_model("linear", Form((1, 8, 8), 10), seed=0)


TABLE, WINDOW, IMAGE, CUBE = Form((13,), 2), Form((32, 3), 2), Form((1, 8, 8), 10), Form((2, 2, 2, 2), 2)
TEXT, NEXT = Form((16,), 2, vocabulary=50), Form((16,), 50, "tokens", vocabulary=50)


@pytest.mark.parametrize(
    ("form", "named"),
    [
        (TABLE, {"linear", "mlp"}),
        (WINDOW, {"cnn1d", "linear", "mlp"}),
        (IMAGE, {"linear", "mlp"}),
        (CUBE, {"linear", "mlp"}),
        (TEXT, {"transformer"}),
        (NEXT, {"transformer"}),
    ],
)
def test_each_model_that_is_named_fits(form: Form, named: set[str]) -> None:
    assert set(re.findall("linear|mlp|cnn1d|transformer", remedy(form).lower())) == named
    for name in named:
        build_model(name, form, seed=0)


@pytest.mark.parametrize(
    ("model", "form", "words"),
    [
        ("tanh-cnn", TABLE, r"of shape \(13,\): .* For rows of numbers, .* linear or mlp"),
        ("lenet-gn", IMAGE, r"scale the images \(image-size"),
        ("resnet18-gn", Form((3, 64, 16), 10), "made for images of at least 32x32 pixels"),
        ("tanh-cnn", Form((3, 28, 32), 10), "made for images of 28x28 or 32x32 pixels"),
        ("tanh-cnn", Form((3, 32, 28), 10), "made for images of 28x28 or 32x32 pixels"),
        ("cnn1d", TABLE, "choose linear or mlp"),
        ("mlp", TEXT, "For tokens choose transformer"),
    ],
)
def test_the_error_says_what_suits_the_data(model: str, form: Form, words: str) -> None:
    with pytest.raises(ModelError, match=words) as error:
        build_model(model, form, seed=0)
    assert str(error.value).endswith(remedy(form))
    assert ("image" in str(error.value).partition(": ")[2].lower()) == (model not in ("cnn1d", "mlp"))
