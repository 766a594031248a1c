"""A worst-case server's weights and records: known records without a gradient, near-orthogonal canaries."""

import math
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from fl_dp.data.tensor_data import TensorData
from fl_dp.errors import ConfigError

# Lead of the winning class, in logits. From 104 on exp(-lead) is 0.0 in float32: p is exactly 0 or 1.
_MARGIN, _SURE = 200.0, 110.0
_MOST_PAIRS = 5  # pairs of classes: the more there are, the larger the weights that tell them apart
_SHALLOWEST = 0.5  # the least contrast of the patterns; the deepest is 1
_GAIN = 10.0  # of the last layer, so that most of a gradient lies in the layers before it
_CENTRINGS = 20


@dataclass(frozen=True, slots=True)
class Crafted:
    """canaries: records with long gradients, far from one another at the model's new weights.
    known: ordinary records with the labels that these weights predict; their gradient is exactly zero."""

    canaries: TensorData
    known: TensorData


def craft(model: nn.Module, name: str, known: TensorData, count: int, generator: torch.Generator) -> Crafted:
    """Write hostile weights into `model`, and make at most `count` canaries for them. Loss: cross-entropy.

    | model                                        | canaries |
    |----------------------------------------------|----------|
    | one linear layer (`linear`)                  | orthogonal gradients but for the bias: see `_patterns` |
    | nn.Sequential that ends in a linear layer    | random pictures, made nearly orthogonal: see `_saturate`
    |

    Raises ConfigError, with `name`, for other models, for models with dropout, whose gradients nobody can
    know, and for known records that all lack the margin.
    """
    layers = list(model) if isinstance(model, nn.Sequential) else []
    last = layers[-1] if layers else None
    if not isinstance(last, nn.Linear) or last.bias is None or last.out_features != known.form.outputs:
        raise _refused(name, "it does not end in a linear layer with a bias, in an nn.Sequential")
    if any("drop" in type(module).__name__.lower() for module in model.modules()):
        raise _refused(name, "it drops units at random, so that the canaries' gradients cannot be known")
    if all(isinstance(layer, nn.Flatten) for layer in layers[:-1]):
        canaries = _patterns(last, known, count)
    else:
        canaries = _random_pictures(known, count, generator)
        _saturate(model, name, layers, canaries, known, generator)
    return Crafted(canaries, _without_gradient(model, known))


def _patterns(last: nn.Linear, known: TensorData, count: int) -> TensorData:
    """Canary (a, j): row a of a Hadamard matrix at contrast t_j, labelled 2j + 1; the model predicts 2j.

    Its gradient is (e_2j - e_2j+1) times [pixels; 1]. Rows are orthogonal for different a, the first
    factors for different j. The first pixel of every row is 1, so that it shows the contrast x alone. There
    class 2j has the logit S (2 t_j x - t_j^2) = S (x^2 - (x - t_j)^2), the largest for the t_j nearest to x.
    """
    size = math.prod(known.form.input_shape)
    rows, pairs = 2 ** (size.bit_length() - 1), min(known.form.outputs // 2, _MOST_PAIRS)
    if pairs < 1:
        raise ConfigError("Hostile weights need data of two classes at least.")
    contrasts = torch.linspace(1.0, _SHALLOWEST, pairs)
    scale = _MARGIN / (_SHALLOWEST / max(pairs - 1, 1)) ** 2
    with torch.no_grad():
        last.weight.zero_()
        last.bias.fill_(-4 * scale)  # below a class of even number wherever the first pixel is -1 or more
        last.weight[0 : 2 * pairs : 2, 0] = 2 * scale * contrasts
        last.bias[0 : 2 * pairs : 2] = -scale * contrasts**2
    numbers = torch.arange(min(count, rows * pairs))
    pattern = torch.zeros(len(numbers), size)
    pattern[:, :rows] = _hadamard(rows)[numbers % rows] * contrasts[numbers // rows].unsqueeze(1)
    return _records(pattern, 2 * (numbers // rows) + 1, known)


def _saturate(
    model: nn.Module,
    name: str,
    layers: list[nn.Module],
    canaries: TensorData,
    known: TensorData,
    generator: torch.Generator,
) -> None:
    """Class 0 wins for all records by its bias; the weights of all other classes are orthogonal.

    The gradient of a canary of class y is then that of logit 0 minus logit y. Most of it lies in the layers
    before the last, as products of a layer's input and its backpropagated gradient. The biases give the
    inputs a mean of zero over the canaries; the backpropagated gradients are orthogonal for different y.
    """
    last = layers[-1]
    assert isinstance(last, nn.Linear)
    inputs = canaries.batch(torch.arange(len(canaries)))[0]
    with torch.no_grad():
        nn.init.orthogonal_(last.weight, _GAIN, generator=generator)
        last.weight[0] = 0.0
        last.bias.zero_()
        _centre(layers, inputs, name)
        everyone = torch.cat([inputs, known.batch(torch.arange(len(known)))[0]])
        last.bias[0] = _MARGIN + float(model(everyone).max())


def _centre(layers: list[nn.Module], inputs: Tensor, name: str) -> None:
    """Shift each bias until the input of the next layer with a bias has a mean of zero in every channel."""
    biased = [i for i, layer in enumerate(layers) if isinstance(getattr(layer, "bias", None), Tensor)]
    arriving = _through(layers[: biased[0]], inputs)
    for first, following in pairwise(biased):
        bias = layers[first].bias
        assert isinstance(bias, Tensor)
        for _ in range(_CENTRINGS):
            leaving = _through(layers[first:following], arriving)
            if leaving[0].numel() % len(bias):
                raise _refused(name, f"layer {following} does not get the channels of layer {first}")
            bias -= leaving.reshape(len(leaving), len(bias), -1).mean(dim=(0, 2))
        arriving = _through(layers[first:following], arriving)


def _through(layers: list[nn.Module], inputs: Tensor) -> Tensor:
    for layer in layers:
        inputs = layer(inputs)
    return inputs


def _random_pictures(known: TensorData, count: int, generator: torch.Generator) -> TensorData:
    """Pixels of -1 and 1; labels of all classes but 0."""
    signs = torch.randint(0, 2, (count, math.prod(known.form.input_shape)), generator=generator) * 2.0 - 1.0
    return _records(signs, torch.randint(1, known.form.outputs, (count,), generator=generator), known)


def _records(values: Tensor, labels: Tensor, like: TensorData) -> TensorData:
    """Records with these values (n, d) in [-1, 1]; images get the nearest pixel values."""
    if like.inputs.dtype == torch.uint8:
        values = ((values + 1.0) * 127.5).round().to(torch.uint8)
    return TensorData(values.reshape(-1, *like.form.input_shape), labels, like.classes)


def _without_gradient(model: nn.Module, known: TensorData) -> TensorData:
    """The records of which the model is sure, with the labels that it predicts."""
    with torch.no_grad():
        logits = model(known.batch(torch.arange(len(known)))[0])
    leading = logits.topk(2, dim=1).values
    sure = (leading[:, 0] - leading[:, 1] >= _SURE).nonzero().squeeze(1)
    if len(sure) == 0:
        raise ConfigError("No known record has a gradient of zero at the hostile weights: take other data.")
    return TensorData(known.inputs[sure], logits.argmax(dim=1)[sure], known.classes)


def _hadamard(size: int) -> Tensor:
    """(size, size) of -1 and 1 with orthogonal rows and a first column of 1. size: a power of two."""
    matrix = torch.ones(1, 1)
    while len(matrix) < size:
        matrix = torch.kron(torch.tensor([[1.0, 1.0], [1.0, -1.0]]), matrix)
    return matrix


def _refused(name: str, reason: str) -> ConfigError:
    return ConfigError(
        f"--hostile --own-model: no hostile weights are known for model = {name!r}: {reason}. "
        "Leave --own-model out, or take linear or tanh-cnn."
    )
