"""Against rounding: how far a norm may be below the true length; sums of sums, added in float64.

In float32, rounding would move a sum of sums by several times C.
"""

import math

import torch
from torch import Tensor

# The most additions that any square passes through in the norm of one parameter (see gradients/lengths.py),
# and 100 more for the few roundings before and after them.
_ADDITIONS = 1024 + 100
_CHUNK = 1 << 16  # numbers whose conversion stays in the cache: seven times as fast for 10^7 numbers


def round_up(norms: Tensor, num_elements: int, num_terms: int) -> Tensor:
    """`norms`, increased so that none is less than the true length; a norm that is not finite stays so.

    norms: square roots of sums of `num_terms` squared lengths, one for each parameter. Together these are
    sums of `num_elements` squares. Their type is the least precise type of the parts. (Ghost norms were
    rounded up before, and get a little longer here.)

    Rounding. Take a sum of non-negative numbers, none of which passes through more than D additions. Its
    relative error is at most D eps / 2, in any order (Higham 2002, section 4.2), and that of its root is
    half of that: 4e-5 in float32.

    Underflow. A square below the smallest normal number may count as zero, or lose digits. All squares
    together lose at most `num_elements` times that number: for 10^8 elements in float32 a length of 1e-15.
    """
    precision = torch.finfo(norms.dtype)
    relative = (_ADDITIONS + num_terms) * precision.eps / 4
    return norms.mul(1 + relative).add(math.sqrt(num_elements * precision.tiny))


def long_type(tensor: Tensor) -> torch.dtype:
    """The type for sums of sums; complex stays complex."""
    return torch.promote_types(tensor.dtype, torch.float64)


def add_to(total: Tensor, part: Tensor, factor: float = 1.0) -> None:
    """Add `factor` times `part` to `total`, in the type of `total`, which is its `long_type`."""
    if not total.is_contiguous():
        total.add_(part.to(total.dtype), alpha=factor)
        return
    flat = zip(torch.split(total.view(-1), _CHUNK), torch.split(part.reshape(-1), _CHUNK), strict=True)
    for into, numbers in flat:
        into.add_(numbers.to(total.dtype), alpha=factor)
