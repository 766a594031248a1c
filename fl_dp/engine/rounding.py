"""How far a norm that was summed in floating point may lie below the length it stands for."""

import math

import torch
from torch import Tensor

# Additions that any one square passes through in the norm of one parameter, at most: see
# forms.squared_lengths. 100 more for the few roundings before and after them.
_ADDITIONS = 1024 + 100


def round_up(norms: Tensor, num_elements: int, num_terms: int) -> Tensor:
    """`norms`, made at least as large as the lengths that they stand for; non-finite ones stay so.

    norms: square roots of sums of `num_terms` squared lengths, one for each parameter, which hold
    `num_elements` squares together; in the least precise of their types. (Ghost norms are rounded up
    by themselves, and a little more here.)

    Rounding. A sum of non-negative numbers, in which none passes through more than D additions, is
    off by D eps / 2 at most, relatively and in any order (Higham 2002, section 4.2), and its root by
    half of that: 4e-5 in float32.

    Underflow. A square below the smallest normal number may count as zero, or lose its digits:
    together they are at most so many times that number. For 10^8 elements in float32, a length of 1e-15.
    """
    precision = torch.finfo(norms.dtype)
    relative = (_ADDITIONS + num_terms) * precision.eps / 4
    return norms.mul(1 + relative).add(math.sqrt(num_elements * precision.tiny))
