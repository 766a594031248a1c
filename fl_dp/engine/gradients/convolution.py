"""The layout of a convolution's weight gradient.

The kernels are measured on the machine that trains (kernel_choice/chooser.py); conv_kernels.py computes them.

| kernel | norm and weighted sum from |
|---|---|
| ghost-matmul | Gram matrices of patches and output gradients; the sum by matrix products |
| instantiate-grouped | one weight gradient of a convolution whose groups are the examples |
| instantiate-patches | one batched matrix product with the patches |
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fl_dp.engine.gradients.conv_kernels import (
    Geometry,
    ghost_norm_squared,
    grads_by_forward,
    grads_by_patches,
    weight_grad,
    weight_grad_by_matmul,
)
from fl_dp.engine.gradients.example_chunks import example_chunks
from fl_dp.engine.gradients.kept import Kept, combine_instantiated, keep_instantiated, sum_type
from fl_dp.engine.gradients.layouts import GradientLayout
from fl_dp.engine.gradients.lengths import squared_lengths
from fl_dp.engine.sum_error import MOST_POSITIONS

# Below this 2 T^2 / (p d), products with patches take a third of the time of the grouped weight gradient, or
# less (128 to 512 channels on 2x2 to 8x8 positions; one core of a CPU).
_PATCHES_ARE_FASTER = 1 / 4


@dataclass(frozen=True, slots=True)
class Conv(GradientLayout):
    """Weight gradients of a convolution; an example may have several images (K > 1)."""

    grad_output: Tensor  # (N * K, p, *output size), an example's images adjacent
    input: Tensor  # (N * K, d, *input size)
    images: int  # K
    geometry: Geometry

    @property
    def shape(self) -> torch.Size:  # type: ignore[override]
        channels = self.input.shape[1] // self.geometry.groups
        return torch.Size((self.grad_output.shape[1], channels, *self.geometry.kernel_size))

    @property
    def signature(self) -> tuple[object, ...]:
        g, x = self.grad_output, self.input
        return ("conv", g.shape[1:], x.shape[1:], self.images, self.geometry, g.dtype, g.device)

    @property
    def rows(self) -> Tensor:
        return self.input

    @property
    def num_examples(self) -> int:
        return self.input.shape[0] // self.images

    @property
    def kernels(self) -> tuple[str, ...]:
        ghost = ("ghost-matmul",) if self.positions <= MOST_POSITIONS else ()
        return (*ghost, "instantiate-grouped", "instantiate-patches")

    @property
    def positions(self) -> int:
        return self.images * math.prod(self.grad_output.shape[2:])

    @property
    def ghost_ratio(self) -> float:
        return 2 * self.positions**2 * self.geometry.groups / math.prod(self.shape)

    def keep(self, kernel: str) -> Kept:
        if kernel == "instantiate-grouped":
            return keep_instantiated(self._by_grouped())
        if kernel == "instantiate-patches":
            grads = self._by_patches()
            return Kept(squared_lengths(grads), (grads,), self._combine_patches)
        norm_squared, least = self._ghost_norm_squared()
        parts = self._by_example()
        return Kept(norm_squared, parts, self._by_matmul, self.positions, least, self._of_blocks)

    def instantiate(self) -> Tensor:
        """(N, *shape), by one of two kernels, without a trial."""
        if self.device.type == "cpu" and self.ghost_ratio < _PATCHES_ARE_FASTER:
            return self._in_order(self._by_patches()).contiguous()
        return self._by_grouped()

    def _by_grouped(self) -> Tensor:
        """(N, *shape) by one convolution whose groups are the images (Rochette et al. 2019)."""
        if self.device.type == "cpu" and self.shape[1] == 1:
            grads = grads_by_forward(*self._by_group(), self.geometry)
        else:
            images = self.input.shape[0]
            x = self.input.reshape(1, -1, *self.input.shape[2:])
            g = self.grad_output.reshape(1, -1, *self.grad_output.shape[2:])
            shape = (images * self.shape[0], *self.shape[1:])
            grads = weight_grad(g, x, shape, self.geometry, images * self.geometry.groups)
        return self._sum_images(grads.view(-1, *self.shape))

    def _by_patches(self) -> Tensor:
        """(N, p, kernel * d / G): gradients as the matrix product gives them."""
        grads = grads_by_patches(*self._by_group(), self.geometry)  # (N * K * G, p / G, ...)
        return self._sum_images(grads.view(self.input.shape[0], self.shape[0], -1))

    def first(self, num_examples: int) -> "Conv":
        rows = num_examples * self.images
        return Conv(self.grad_output[:rows], self.input[:rows], self.images, self.geometry)

    def _by_matmul(self, factors: Tensor, grad_output: Tensor, x: Tensor) -> Tensor:
        """By products of a few examples at a time, whose copies take no more memory than the result."""
        dtype, N = sum_type(factors, x), len(x)
        copied = 2 * (grad_output[:1].numel() + x[:1].numel())
        as_many = max(1, math.prod(self.shape) // max(1, copied))
        total: Tensor | None = None
        for part in example_chunks(N, -(-copied // as_many), dtype, x.device):
            found = self._of_blocks(factors[None, part], grad_output[None, part], x[None, part])
            total = found if total is None else total.add_(found)
        assert total is not None  # there is one example at least
        return total

    def _of_blocks(self, factors: Tensor, grad_output: Tensor, x: Tensor) -> Tensor:
        """The weighted sums of blocks, added up; factors (B, R), the others (B, R, K, channels, ...)."""
        dtype, G = sum_type(factors, x), self.geometry.groups
        of_images = factors.to(dtype).repeat_interleave(self.images, 1)
        g, d = (one.flatten(1, 2).to(dtype).chunk(G, 2) for one in (grad_output, x))
        sums = [weight_grad_by_matmul(*pair, of_images, self.geometry) for pair in zip(g, d, strict=True)]
        return sums[0] if G == 1 else torch.cat(sums)

    def _combine_patches(self, factors: Tensor, grads: Tensor) -> Tensor:
        return self._in_order(combine_instantiated(factors, grads))

    def _in_order(self, grads: Tensor) -> Tensor:
        """(..., p, d / G, *kernel) from (..., p, kernel * d / G); a view."""
        in_kernel = grads.view(*grads.shape[:-1], *self.geometry.kernel_size, -1)
        return in_kernel.movedim(-1, grads.dim() - 1)

    def _sum_images(self, grads: Tensor) -> Tensor:
        """(N, ...) from (N * K, ...): an example's gradient is the sum over its images."""
        if self.images == 1:
            return grads  # a sum over one would copy
        return grads.view(self.num_examples, self.images, *grads.shape[1:]).sum(1)

    def _by_example(self) -> tuple[Tensor, Tensor]:
        """Output gradients (N, K, p, ...) and inputs (N, K, d, ...)."""
        N, K = self.num_examples, self.images
        g, x = self.grad_output, self.input
        return g.view(N, K, *g.shape[1:]), x.view(N, K, *x.shape[1:])

    def _by_group(self) -> tuple[Tensor, Tensor]:
        """Output gradients (N * K * G, p / G, ...) and inputs (N * K * G, d / G, ...)."""
        if (G := self.geometry.groups) == 1:
            return self.grad_output, self.input
        M = len(self.input)
        g = self.grad_output.reshape(M * G, -1, *self.grad_output.shape[2:])
        return g, self.input.reshape(M * G, -1, *self.input.shape[2:])

    def _ghost_norm_squared(self) -> tuple[Tensor, Tensor]:
        """(N,) squared lengths, and `least_square`. Each group is treated as an example, and an example's
        groups are added up.
        """
        N, G = self.num_examples, self.geometry.groups
        g, x = (
            tensor.reshape(N, self.images, G, -1, *tensor.shape[2:]).transpose(1, 2).flatten(0, 2)
            for tensor in (self.grad_output, self.input)
        )
        squares, least = ghost_norm_squared(g, x, self.geometry, self.images)
        return squares.view(N, G).sum(1), least.view(N, G).sum(1)
