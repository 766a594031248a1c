"""Moves output gradients that are kept to memory that the backward pass has just freed.

A use's output gradient is made while what its own operator read is still there: at the top of the heap. A
moment later that memory is freed, and leaves a hole of often the same size. PyTorch asks the C library for
aligned memory, which glibc before 2.38 never takes from a hole of exactly that size (its bug 14581). So every
kept gradient would make the heap longer, and the holes would stay. A request without alignment fits the hole.
Its memory is aligned, because the earlier tensor there was. On other systems nothing is moved.
"""

from dataclasses import replace
from weakref import WeakValueDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fl_dp.engine.gradients.kept import Kept

LEAST_BYTES = 2**17  # smaller ones are not worth a copy
_ALIGNMENT = 64  # PyTorch's own: products may round differently elsewhere

# By address, while it is alive: memory that no PyTorch operator has made, so that its bytes can be counted.
_MADE: WeakValueDictionary[int, NDArray[np.uint8]] = WeakValueDictionary()


class Settled:
    """One use's output gradient, of any shape, on its way to other memory.

    It is moved once, for all parameters whose kernels keep it, and only if there are any. The numbers and
    their order in memory stay the same. Gradients on other devices than CPUs stay where they are.
    """

    def __init__(self, grad: Tensor) -> None:
        self._grad, self._moved = grad, grad
        self._pending = grad.device.type == "cpu" and grad.nbytes >= LEAST_BYTES and _is_dense(grad)

    def __call__(self, kept: Kept) -> Kept:
        """`kept` without the memory of the gradient, if that helps."""
        if self._pending and any(map(self._is_it, kept.parts)):
            self._moved, self._pending = _moved(self._grad), False
        if self._moved is self._grad:
            return kept
        parts = tuple(
            self._moved.as_strided(part.shape, part.stride()) if self._is_it(part) else part
            for part in kept.parts
        )
        return replace(kept, parts=parts)

    def _is_it(self, part: Tensor) -> bool:
        """Whether `part` is the gradient, possibly in another shape."""
        there = part.numel() == self._grad.numel() and part.dtype == self._grad.dtype
        return there and _place(part) == _place(self._grad) and _is_dense(part)


def is_made_here(storage: torch.UntypedStorage) -> bool:
    """Whether a gradient was moved to that memory."""
    return storage.data_ptr() in _MADE


def _place(tensor: Tensor) -> tuple[int, bool, bool]:
    """The address; also conjugation and negation, because such a view has other numbers there."""
    return tensor.data_ptr(), tensor.is_conj(), tensor.is_neg()


def _is_dense(tensor: Tensor) -> bool:
    """Whether it has neither gaps nor overlaps in memory."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def _moved(grad: Tensor) -> Tensor:
    """A copy in new memory, or `grad` itself if that memory would not be aligned."""
    memory = np.empty(grad.nbytes, dtype=np.uint8)
    address = memory.ctypes.data
    if address % _ALIGNMENT:
        return grad
    _MADE[address] = memory
    return torch.from_numpy(memory).view(grad.dtype).as_strided(grad.shape, grad.stride()).copy_(grad)
