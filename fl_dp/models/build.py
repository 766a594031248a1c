"""Builds a model by name from the data's form and a seed, and tries it on two blank examples."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from fl_dp.choices import MODELS
from fl_dp.clean_text import one_line
from fl_dp.errors import FlDpError, ModelError
from fl_dp.form import Form

_MOST_OF_AN_ERROR = 1000  # characters of a message of PyTorch or a model
_ANY = "linear and mlp take numbers of any shape"


@dataclass(frozen=True, slots=True)
class Model:
    """A model that users can choose: the constant `MODEL` of a file in architectures/.

    build: takes the data's `Form` and, if there is one, the argument. The model maps inputs (n, *input_shape)
    to outputs (n, *output_shape). ValueError, with the reason, for a form that it cannot take.
    argument: its name in errors, NAME of `torchvision:NAME`. None: there is none.
    optional: the argument may be left out; `build` then has its own default.
    common: for an argument that is a site's own path: returns what sites compare instead. ConfigError for a
    path that does not exist.
    """

    build: Callable[..., nn.Module]
    argument: str | None = None
    optional: bool = False
    common: Callable[[str], str] | None = None


def build_model(name: str, form: Form, seed: int) -> nn.Module:
    """The model `name` in training mode, for data of that form.

    The same seed gives the same weights; the global random state is unchanged. ConfigError for an unknown
    name or a wrong argument, ModelError for a model that refuses the form or fails on two blank examples.
    """
    model, argument = choose_model(name)
    arguments = (argument,) if argument else ()
    return build_with(lambda form: model.build(form, *arguments), name, form, seed)


def build_with(make: Callable[[Form], nn.Module], name: str, form: Form, seed: int) -> nn.Module:
    """As `build_model`, by the function `make`. name: for errors."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # not torch.manual_seed: that also reseeds GPUs
        try:
            model = make(form)
            with torch.no_grad():
                shape = tuple(model.eval()(blank_inputs(form, 2)).shape)
            model.train()
        except FlDpError:
            raise
        except (RuntimeError, ValueError, AssertionError, IndexError) as error:
            words = one_line(error, _MOST_OF_AN_ERROR).rstrip(".!")
            raise ModelError(
                f"model = {name!r} does not fit data of shape {form.input_shape}: {words}. {remedy(form)}"
            ) from error
    if shape != (2, *form.output_shape):
        raise ModelError(
            f"model = {name!r}: expected outputs of shape {(2, *form.output_shape)} for two examples of "
            f"shape {form.input_shape}, not {shape}."
        )
    return model


def choose_model(name: str) -> tuple[Model, str]:
    """The descriptor of the model `name`, and the argument; ConfigError if either is wrong."""
    model = MODELS.load(name, Model)
    return model, MODELS.argument(name, model.argument, optional=model.optional)


def blank_inputs(form: Form, size: int) -> torch.Tensor:
    """(size, *input_shape) zeros, of the inputs' dtype."""
    return torch.zeros(size, *form.input_shape, dtype=torch.int64 if form.vocabulary else torch.float32)


def remedy(form: Form) -> str:
    """A sentence that names models, or settings, for inputs of this form."""
    if form.vocabulary or form.targets == "tokens":
        return "For tokens choose transformer or hf:PATH; `tokens` sets their number."
    match len(form.input_shape):
        case 1:
            return "For rows of numbers, such as a table's, choose linear or mlp."
        case 2:
            return f"For windows (time steps, channels) choose cnn1d; {_ANY}."
        case 3:
            return (
                "Choose a model for images of this size, or scale the images (image-size, for folder: and "
                f"hf:); {_ANY}."
            )
    return f"{_ANY[:1].upper()}{_ANY[1:]}; for others write your own model (FILE.py:NAME)."
