"""A model by its name: built from the data's shape and a seed, and tried on two blank examples."""

import torch
from torch import nn

from fl_dp.choices import MODELS
from fl_dp.errors import ModelError
from fl_dp.models.model import Model

_Shape = tuple[int, ...]


def build_model(name: str, input_shape: _Shape, num_classes: int, seed: int) -> nn.Module:
    """The model `name` in training mode, mapping (n, *input_shape) to logits (n, num_classes).

    input_shape: (C, H, W) of images or (d,) of features.
    seed: same seed, same weights; the global random state is left as it was.

    Raises ConfigError for a name that is not in architectures/ and for a wrong argument, ModelError for a
    model that refuses the shape or fails on two blank examples.
    """
    model_choice, argument = choose_model(name)
    arguments = (argument,) if argument else ()
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # not torch.manual_seed: that reseeds GPUs, too
        try:
            model = model_choice.build(input_shape, num_classes, *arguments)
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


def choose_model(name: str) -> tuple[Model, str]:
    """The descriptor of the model `name`, and the argument; ConfigError where either is wrong."""
    model = MODELS.load(name, Model)
    return model, MODELS.argument(name, model.argument)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".!")


def _logits_shape(model: nn.Module, input_shape: _Shape) -> _Shape:
    """Shape of the output for two blank examples; the model is left in training mode."""
    with torch.no_grad():
        logits = model.eval()(torch.zeros(2, *input_shape))
    model.train()
    return tuple(logits.shape)
