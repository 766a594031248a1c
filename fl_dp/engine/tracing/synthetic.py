"""Synthetic examples in the place of real ones: inputs of the same structure, types and shapes."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fl_dp.engine.tracing.structure import map_tensors, tensors
from fl_dp.errors import ModelError

NUM_EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class Synthetic:
    """A batch of NUM_EXAMPLES synthetic examples: `model(*args, **kwargs)`.

    examples: identities of the tensors that hold them; the others are the user's own.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    examples: frozenset[int]

    def with_other(self, example: int) -> "Synthetic":
        """The same batch, but for one example: other normal values, 0 for 1, false for true."""

        def changed(tensor: Tensor) -> Tensor:
            if id(tensor) not in self.examples:
                return tensor
            other = tensor.clone()
            other[example] = _other(tensor[example])
            return other

        args, kwargs = map_tensors(changed, (self.args, self.kwargs))
        return Synthetic(args, kwargs, frozenset())


def synthetic(args: tuple[Any, ...], kwargs: dict[str, Any], truth: bool) -> Synthetic:
    """Replace every tensor that leads with the batch; none of its values is read.

    That is every tensor whose first dimension is as long as that of the first tensor which has one.
    Floating types become normal; integers 1 and 0 at random, which all tables of two rows or more
    have; booleans `truth` and its opposite at random. The first and second position of each
    example are 1 and 0: a mask leaves something in, whichever way it is meant. Vectors of integers
    or booleans are all 1 or `truth`. Other tensors (a mask (T, T), a number) and what is no tensor
    are passed on.

    A tensor that only happens to be as long as the batch is replaced as well; the model then fails
    or mixes examples, and is refused. In a batch of one, a tensor of length 1 that was to be
    broadcast to all examples is replaced by three rows, which comes to the same.

    Raises ModelError where no tensor has a dimension.
    """
    size = _batch_size((args, kwargs))
    examples = set()

    def replaced(tensor: Tensor) -> Tensor:
        if tensor.dim() == 0 or len(tensor) != size:
            return tensor
        drawn = _drawn(tensor, truth)
        examples.add(id(drawn))
        return drawn

    args, kwargs = map_tensors(replaced, (args, kwargs))
    return Synthetic(args, kwargs, frozenset(examples))


def _batch_size(inputs: Any) -> int:
    for _, tensor in tensors(inputs):
        if tensor.dim():
            return len(tensor)
    raise ModelError(
        "The model was called without a tensor that could hold examples, in positions, keywords, tuples, "
        "lists, mappings or dataclasses; wrap it in a module that takes them so."
    )


def _drawn(like: Tensor, truth: bool) -> Tensor:
    shape = (NUM_EXAMPLES, *like.shape[1:])
    if like.is_floating_point() or like.is_complex():
        return torch.randn(shape, dtype=like.dtype, device=like.device)
    coins = torch.rand(shape, device=like.device) < (0.5 if len(shape) > 1 else 1.0)
    if len(shape) > 1:
        coins[..., :1] = True
        coins[..., 1:2] = False
    return coins == truth if like.dtype == torch.bool else coins.to(like.dtype)


def _other(example: Tensor) -> Tensor:
    if example.is_floating_point() or example.is_complex():
        return torch.randn_like(example) * 3
    other = ~example if example.dtype == torch.bool else 1 - example
    if example.dim() and example.shape[-1] > 1:
        other[..., 0] = example[..., 0]  # a mask must not leave out everything: NaN would spread
    return other
