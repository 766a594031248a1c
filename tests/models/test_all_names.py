"""Every built-in model passes the engine's probe for each form that it takes, and refuses others in words."""

import pytest
import torch

from fl_dp.choices import MODELS
from fl_dp.engine.probe import probe
from fl_dp.errors import ConfigError, FlDpError, ModelError
from fl_dp.form import Form
from fl_dp.models.build import build_model
from fl_dp.training.objective import Objective

NAMES = set(MODELS.built_in()) - {"hf"}  # which wants a path: tests/models/architectures/test_hf.py
NAME_OF = {"timm": "timm:resnet10t", "torchvision": "torchvision:squeezenet1_1", "wrn-gn": "wrn-gn:10x1"}
FORMS = {
    "features": Form((13,), 2),
    "several numbers": Form((13,), 3, "numbers"),
    "windows": Form((16, 6), 4),
    "digits": Form((1, 28, 28), 10),
    "images": Form((3, 32, 32), 10),
    "scattering": Form((81, 7, 7), 10),
    "scattering, colours": Form((243, 8, 8), 10),
    "tokens": Form((12,), 3, "class", 50),
    "numbers of tokens": Form((12,), 2, "numbers", 50),
    "next tokens": Form((12,), 50, "tokens", 50),
}
IMAGES = {"digits", "images", "scattering", "scattering, colours"}
TAKEN = {  # a model that does not stand here is tried with every form, and may refuse it
    "linear": {"features", "several numbers", "windows", *IMAGES},
    "mlp": {"features", "several numbers", "windows", *IMAGES},
    "norm-linear": IMAGES,
    "scatter-cnn": {"scattering", "scattering, colours"},
    "cnn1d": {"windows"},
    "tanh-cnn": {"digits", "images"},
    "lenet-gn": {"digits", "images"},
    "resnet18-gn": {"images"},
    "wrn-gn": {"digits", "images"},
    "torchvision": {"digits", "images"},
    "timm": {"images"},
    "transformer": {"tokens", "numbers of tokens", "next tokens"},
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", sorted(NAMES))
@pytest.mark.filterwarnings("ignore")  # of timm's and torchvision's imports
def test_a_form_is_taken_and_can_be_protected_or_is_refused_in_words(name: str, form: str) -> None:
    if name == "timm":
        pytest.importorskip("timm")
    if form not in TAKEN.get(name, FORMS):
        with pytest.raises(ModelError, match=r"does not fit data of shape .*: (it |Given input size)"):
            _built(name, FORMS[form])
        return
    try:
        model, inputs = _built(name, FORMS[form])
    except FlDpError as error:
        if name in TAKEN:
            raise
        pytest.skip(f"{error} TAKEN may say which forms {name} takes, NAME_OF its argument.")
    axes = probe(model, inputs)
    used = {parameter for key in axes.batch for parameter in key.parameters}
    assert used == {n for n, p in model.named_parameters() if p.requires_grad}
    assert not axes.fallback
    assert model(inputs).shape == (3, *FORMS[form].output_shape)


def _built(name: str, form: Form) -> tuple[torch.nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    return build_model(NAME_OF.get(name, name), form, seed=0), Objective(lambda *_: _[0], form).blank(3)[0]


def test_widths_of_an_mlp_are_its_optional_argument() -> None:
    form = Form((5,), 2)
    assert _widths("mlp", form) == [64, 64]
    assert _widths("mlp:7", form) == [7]
    assert _widths("mlp:9,8,7", form) == [9, 8, 7]
    for wrong in ("mlp:0", "mlp:7,", "mlp:wide"):
        with pytest.raises(ModelError, match="expected widths of hidden layers"):
            build_model(wrong, form, seed=0)
    with pytest.raises(ConfigError, match="write mlp:WIDTHS"):
        build_model("mlp:", form, seed=0)


def _widths(name: str, form: Form) -> list[int]:
    layers = [m for m in build_model(name, form, seed=0).modules() if isinstance(m, torch.nn.Linear)]
    return [layer.out_features for layer in layers[:-1]]


def test_a_decoder_does_not_see_the_tokens_behind_a_place_and_a_classifier_sees_all() -> None:
    for targets, outputs in (("tokens", 9), ("class", 2)):
        model = build_model("transformer", Form((6,), outputs, targets, 9), seed=0)  # type: ignore[arg-type]
        one = torch.randint(9, (1, 6))
        other = one.clone()
        other[0, 4] = (one[0, 4] + 1) % 9
        before, after = model(one), model(other)
        if targets == "tokens":
            assert torch.allclose(before[:, :4], after[:, :4], atol=1e-6)
            assert not torch.allclose(before[:, 4:], after[:, 4:], atol=1e-4)
        else:
            assert not torch.allclose(before, after, atol=1e-6)


def test_a_name_of_timm_that_was_not_tried_is_refused_without_asking_the_library() -> None:
    with pytest.raises(ModelError, match=r"not among the models of timm .* try resnet18"):
        build_model("timm:resnet1", Form((3, 32, 32), 10), seed=0)


@pytest.mark.filterwarnings("ignore")
def test_activations_in_timms_batch_norms_stay() -> None:
    pytest.importorskip("timm")
    model = build_model("timm:regnetx_002", Form((3, 32, 32), 10), seed=0)
    assert sum(isinstance(module, torch.nn.ReLU) for module in model.modules()) > 10
