"""Synthetic examples that replace real ones: inputs of the same structure, types and shapes."""

from dataclasses import dataclass

import torch
from torch import Tensor

from fl_dp.engine.tracing.harness import Batch, Change, beside

NUM_EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class Synthetic(Batch):
    """A batch of synthetic examples. lengths: whether vectors of integers are lengths, see `synthetic`."""

    lengths: bool = False

    def with_other(self, example: int) -> Change:
        """One example is replaced: by new normal values, 0 in place of 1, false of true."""

        def changed(tensor: Tensor) -> Tensor:
            other = tensor.clone()
            other[example] = _other(tensor[example], self.lengths)
            return other

        return beside(self, self.mapped(changed, self.size), [example])


def synthetic(given: Batch, truth: bool, lengths: bool = False) -> Synthetic:
    """Replace every tensor that holds examples; none of its values is read.

    | type | what replaces it |
    |---|---|
    | floating point | normal numbers |
    | integers | 1 and 0 at random, which are rows of every table of two rows or more |
    | booleans | `truth` and its opposite at random |
    | a vector of integers or booleans | all 1, or all `truth` |
    | a vector of integers, with `lengths` | 2, and 1 for all but the first |

    In the last dimension the first entry is always 1 (or `truth`), the second always 0 (or its opposite). So
    a mask never leaves out everything, whether true means in or out. Other tensors (a mask (T, T), a number)
    and everything that is no tensor are passed on unchanged.

    A tensor that has the batch's length by chance is also replaced. The model then fails or mixes examples,
    and is refused. In a batch of one, a tensor of length 1 that the model broadcasts to all examples is
    replaced by three rows, which gives the same result.
    """

    def drawn(tensor: Tensor) -> Tensor:
        return _in_order_of(tensor, _drawn(tensor, truth, lengths))

    batch = given.mapped(drawn, NUM_EXAMPLES)
    return Synthetic(batch.args, batch.kwargs, batch.size, batch.examples, lengths)


def _in_order_of(like: Tensor, drawn: Tensor) -> Tensor:
    """`drawn`, with its dimensions in memory in the same order as those of `like`: for transposed inputs,
    layers use other operators.
    """
    order = sorted(range(like.dim()), key=like.stride, reverse=True)
    return drawn.permute(order).contiguous().permute([order.index(dim) for dim in range(like.dim())])


def _is_integral(tensor: Tensor) -> bool:
    return not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool)


def _drawn(like: Tensor, truth: bool, lengths: bool) -> Tensor:
    shape = (NUM_EXAMPLES, *like.shape[1:])
    if lengths and _is_integral(like) and like.dim() == 1:
        return torch.tensor([2] + [1] * (NUM_EXAMPLES - 1), dtype=like.dtype, device=like.device)
    if like.is_floating_point() or like.is_complex():
        return torch.randn(shape, dtype=like.dtype, device=like.device)
    coins = torch.rand(shape, device=like.device) < (0.5 if len(shape) > 1 else 1.0)
    if len(shape) > 1:
        coins[..., :1] = True
        coins[..., 1:2] = False
    return coins == truth if like.dtype == torch.bool else coins.to(like.dtype)


def _other(example: Tensor, lengths: bool) -> Tensor:
    if example.is_floating_point() or example.is_complex():
        return torch.randn_like(example) * 3
    if lengths and _is_integral(example) and not example.dim():
        return 3 - example
    other = ~example if example.dtype == torch.bool else 1 - example
    if example.dim() and example.shape[-1] > 1:
        other[..., 0] = example[..., 0]  # otherwise a mask could leave out everything, and the output be NaN
    return other
