"""torchvision's classification models, untrained and without batch norm."""

import difflib
import math
from typing import Any

import torch
from torch import nn

from fl_dp.errors import ModelError
from fl_dp.form import Form
from fl_dp.models.build import Model
from fl_dp.models.expect import expect_numbers
from fl_dp.models.group_norm import replace_batch_norms
from fl_dp.optional import require_package

_CHANNELS = 3  # of the images that torchvision's models are made for

_NO_AUXILIARY_HEADS: dict[str, Any] = {"aux_logits": False, "init_weights": True}
_OPTIONS = {"googlenet": _NO_AUXILIARY_HEADS, "inception_v3": _NO_AUXILIARY_HEADS}


def torchvision_model(form: Form, architecture: str) -> nn.Module:
    """torchvision's `architecture` for images (C, H, W) with any number of channels.

    Vision transformers and MaxViT are built for the data's size, not for 224x224. ModelError for an unknown
    architecture; ValueError, or the constructor's own error, for an unsupported shape.
    """
    require_package("torchvision", f"model = 'torchvision:{architecture}'")
    from torchvision import models  # late: it is optional, and takes 1.3 s

    known = models.list_models(module=models)
    if architecture not in known:
        close = difflib.get_close_matches(architecture, known) or ["resnet18"]
        raise ModelError(
            f"model = 'torchvision:{architecture}': torchvision has no such classification model; "
            f"try {' or '.join(close)}."
        )
    expect_numbers(form)
    input_shape = form.input_shape
    if len(input_shape) != 3:
        raise ValueError("it takes images (C, H, W)")
    options = _OPTIONS.get(architecture, {}) | _size_option(architecture, input_shape)
    model: nn.Module = models.get_model(architecture, weights=None, num_classes=form.outputs, **options)
    if input_shape[0] != _CHANNELS:
        _take_channels(model, input_shape[0])
    replace_batch_norms(model)
    return model


def _size_option(architecture: str, input_shape: tuple[int, ...]) -> dict[str, Any]:
    """The constructor's option for the image size, for families that have one."""
    _, height, width = input_shape
    if architecture.startswith("vit_"):
        return {"image_size": height}  # its forward refuses another width
    if architecture.startswith("maxvit_"):
        return {"input_size": (height, width)}
    return {}


def _take_channels(model: nn.Module, channels: int) -> None:
    """Replace, in place, the first convolution by one for another number of channels.

    Its weights are drawn anew, with a standard deviation that keeps the output's variance.
    """
    name, old = next((n, m) for n, m in model.named_modules() if isinstance(m, nn.Conv2d))
    new = nn.Conv2d(
        channels,
        old.out_channels,
        old.kernel_size,  # type: ignore[arg-type]
        old.stride,  # type: ignore[arg-type]
        old.padding,  # type: ignore[arg-type]
        bias=old.bias is not None,
    )
    with torch.no_grad():
        new.weight.normal_().mul_(old.weight.std() * math.sqrt(_CHANNELS / channels))
    if old.bias is not None:
        new.bias = old.bias
    model.set_submodule(name, new)


MODEL = Model(torchvision_model, argument="NAME")
