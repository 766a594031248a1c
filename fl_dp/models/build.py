"""Models by name: built from the data's shape and a seed, and seen to fit before anything starts."""

import math

import torch
from torch import nn

from fl_dp.config.run import MODELS
from fl_dp.errors import ModelError
from fl_dp.models.architectures.lenet_gn import lenet_gn
from fl_dp.models.architectures.tanh_cnn import tanh_cnn
from fl_dp.models.architectures.torchvision import torchvision_model

_Shape = tuple[int, ...]


def build_model(name: str, input_shape: _Shape, num_classes: int, seed: int) -> nn.Module:
    """The model `name` in training mode, mapping (n, *input_shape) to logits (n, num_classes).

    input_shape: (C, H, W) of images or (d,) of features.
    seed: same seed, same weights; the global random state is left as it was.

    Raises ModelError for an unknown name and for a model that does not fit the data: it has then
    refused the shape itself, or failed on two blank examples.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # not torch.manual_seed: that reseeds GPUs, too
        try:
            model = _construct(name, input_shape, num_classes)
            logits_shape = _logits_shape(model, input_shape)
        except (RuntimeError, ValueError, AssertionError, IndexError) as error:
            raise ModelError(
                f"model = {name!r} does not fit data of shape {input_shape}: {_one_line(error)}. "
                f"Choose another model or resize the data."
            ) from error
    if logits_shape != (2, num_classes):
        raise ModelError(
            f"model = {name!r}: expected logits of shape (2, {num_classes}) for two examples of shape "
            f"{input_shape}, not {logits_shape}."
        )
    return model


def _construct(name: str, input_shape: _Shape, num_classes: int) -> nn.Module:
    match name.split(":", 1):
        case ["linear"]:
            return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(input_shape), num_classes))
        case ["tanh-cnn"]:
            return tanh_cnn(input_shape, num_classes)
        case ["lenet-gn"]:
            return lenet_gn(input_shape, num_classes)
        case ["torchvision", architecture]:
            return torchvision_model(architecture, input_shape, num_classes)
    raise ModelError(f"model = {name!r}: unknown model; expected {', '.join(MODELS)}.")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".!")


def _logits_shape(model: nn.Module, input_shape: _Shape) -> _Shape:
    """Shape of the output for two blank examples; the model is left in training mode."""
    with torch.no_grad():
        logits = model.eval()(torch.zeros(2, *input_shape))
    model.train()
    return tuple(logits.shape)
