import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torchvision import models
from torchvision.models import regnet

from fl_dp.errors import ModelError
from fl_dp.form import Form
from fl_dp.models.architectures.torchvision import torchvision_model
from fl_dp.models.build import build_model

ALL = models.list_models(module=models)


@pytest.fixture
def meta(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No weights in memory; only a RegNet's widths, which its constructor calculates, are real."""
    real = regnet.BlockParams.from_init_params

    def calculate(*arguments: Any, **options: Any) -> regnet.BlockParams:
        with torch.device("cpu"):
            return real(*arguments, **options)

    monkeypatch.setattr(regnet.BlockParams, "from_init_params", calculate)
    with torch.device("meta"):
        yield


@pytest.mark.slow
@pytest.mark.usefixtures("meta")
@pytest.mark.parametrize("architecture", ALL)
def test_every_classification_model_trains_on_grey_images_without_batch_norm(architecture: str) -> None:
    model = build_model(f"torchvision:{architecture}", Form((1, 224, 224), 7), seed=0)
    assert not any(isinstance(module, _BatchNorm) for module in model.modules())
    logits = model(torch.zeros(2, 1, 224, 224))  # in training mode: no auxiliary heads either
    assert logits.shape == (2, 7)


@pytest.mark.parametrize(
    "architecture", ["resnet18", "densenet121", "mobilenet_v3_small", "vit_b_16", "swin_t"]
)
def test_nothing_but_batch_norm_is_replaced(architecture: str) -> None:
    with torch.device("meta"):
        ours = torchvision_model(Form((3, 224, 224), 7), architecture)
        original = models.get_model(architecture, num_classes=7)
    assert {n: p.shape for n, p in ours.named_parameters()} == {
        n: p.shape for n, p in original.named_parameters()
    }
    for name, module in original.named_modules():
        expected = nn.GroupNorm if isinstance(module, _BatchNorm) else type(module)
        assert type(ours.get_submodule(name)) is expected


@pytest.mark.parametrize("channels", [1, 4])
def test_the_rebuilt_convolution_keeps_its_output_variance(channels: int) -> None:
    torch.manual_seed(0)
    model = torchvision_model(Form((channels, 32, 32), 10), "resnet18")
    original = models.resnet18().conv1
    assert model.conv1.weight.shape == (64, channels, 7, 7)
    assert (model.conv1.stride, model.conv1.padding) == (original.stride, original.padding)
    fan_in = [conv.weight[0].numel() * conv.weight.var().item() for conv in (model.conv1, original)]
    assert math.isclose(*fan_in, rel_tol=0.1)


@pytest.mark.parametrize(("architecture", "first"), [("resnet18", "conv1"), ("squeezenet1_1", "features.0")])
def test_the_rebuilt_convolution_has_a_bias_where_there_was_one(architecture: str, first: str) -> None:
    with torch.device("meta"):
        ours = torchvision_model(Form((1, 32, 32), 10), architecture).get_submodule(first)
        original = models.get_model(architecture).get_submodule(first)
    assert ours.weight.shape[1] == 1
    assert (ours.bias is None) == (original.bias is None)


def test_vision_transformers_take_the_datas_size() -> None:
    with torch.device("meta"):
        assert build_model("torchvision:vit_b_16", Form((3, 32, 32), 10), seed=0)(
            torch.zeros(1, 3, 32, 32)
        ).shape == (1, 10)
    with pytest.raises(ModelError, match=r"'torchvision:vit_b_16' does not fit data of shape \(1, 28, 28\)"):
        build_model("torchvision:vit_b_16", Form((1, 28, 28), 10), seed=0)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("torchvision:resnet19", "'torchvision:resnet19': .* try .*resnet18"),
        ("torchvision:retinanet_resnet50_fpn", "no such classification model"),
    ],
)
def test_what_is_no_classification_model_is_refused(name: str, words: str) -> None:
    with pytest.raises(ModelError, match=words):
        build_model(name, Form((3, 32, 32), 10), seed=0)
