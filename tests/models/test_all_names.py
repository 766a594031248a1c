"""Every built-in model passes the engine's probe for each form that it takes, and refuses others in words."""

import re
from collections.abc import Iterator

import pytest
import torch

from fl_dp.choices import MODELS
from fl_dp.engine.probe import probe
from fl_dp.errors import FlDpError, ModelError
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
    "tokens of numbers": Form((12,), 50, "tokens"),
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


@pytest.fixture
def one_thread() -> Iterator[None]:
    """So small a work takes longer with several, beside other tests many times longer."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("name", sorted(NAMES))
@pytest.mark.filterwarnings("ignore")  # of timm's and torchvision's imports
@pytest.mark.usefixtures("one_thread")
def test_forms_are_taken_and_can_be_protected_or_are_refused_in_words(name: str) -> None:
    """Of images that are taken one kind is probed: the others differ in the channels of the first layer."""
    if name == "timm":
        pytest.importorskip("timm")
    asked, taken = NAME_OF.get(name, name), TAKEN.get(name, set(FORMS))
    probed = {form for form in taken if form not in IMAGES} or {min(taken)}
    for known, form in FORMS.items():
        if known not in taken:
            shape = re.escape(f"{asked!r} does not fit data of shape {form.input_shape}: ")
            with pytest.raises(ModelError, match=f"{shape}(it |Given input size)"):
                build_model(asked, form, seed=0)
            continue
        try:
            model = build_model(asked, form, seed=0)
        except FlDpError:
            if name in TAKEN:
                raise
            continue
        inputs = Objective(lambda *_: _[0], form).blank(3)[0]
        assert model(inputs).shape == (3, *form.output_shape)
        if known in probed or name not in TAKEN:
            axes = probe(model, inputs)
            used = {parameter for key in axes.batch for parameter in key.parameters}
            assert used == {n for n, p in model.named_parameters() if p.requires_grad}
            assert not axes.fallback


def test_widths_of_an_mlp_are_its_optional_argument() -> None:
    form = Form((5,), 2)
    for name, widths in (("mlp", [64, 64]), ("mlp:7", [7]), ("mlp:9,8,7", [9, 8, 7])):
        modules = build_model(name, form, seed=0).modules()
        assert [m.out_features for m in modules if isinstance(m, torch.nn.Linear)] == [*widths, 2]
    for wrong in ("mlp:0", "mlp:7,", "mlp:wide"):
        with pytest.raises(ModelError, match="expected widths of hidden layers"):
            build_model(wrong, form, seed=0)


def test_a_decoder_does_not_see_the_tokens_behind_a_place_and_a_classifier_sees_all() -> None:
    one = torch.randint(9, (1, 6))
    other = one.clone()
    other[0, 4] = (one[0, 4] + 1) % 9
    decoder = build_model("transformer", Form((6,), 9, "tokens", 9), seed=0)
    before, after = decoder(one), decoder(other)
    assert torch.allclose(before[:, :4], after[:, :4], atol=1e-6)
    assert not torch.allclose(before[:, 4:], after[:, 4:], atol=1e-4)
    classifier = build_model("transformer", Form((6,), 2, "class", 9), seed=0)
    assert not torch.allclose(classifier(one), classifier(other), atol=1e-6)


def test_a_name_of_timm_that_was_not_tried_is_refused_without_asking_the_library() -> None:
    with pytest.raises(ModelError, match=r"not one of timm's models .* try resnet18"):
        build_model("timm:resnet1", Form((3, 32, 32), 10), seed=0)


@pytest.mark.filterwarnings("ignore")
def test_activations_in_timms_batch_norms_stay() -> None:
    pytest.importorskip("timm")
    model = build_model("timm:regnetx_002", Form((3, 32, 32), 10), seed=0)
    assert sum(isinstance(module, torch.nn.ReLU) for module in model.modules()) > 10
