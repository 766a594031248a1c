"""The layout of a convolution's weight gradient.

Its kernels are measured against one another on the machine that trains (kernel_choice/chooser.py). Their
arithmetic is in conv_kernels.py.

| kernel | norm and weighted sum from |
|---|---|
| ghost-matmul | Gram matrices of patches and output gradients; the sum by matrix products |
| instantiate-grouped | one weight gradient of a convolution whose groups are the examples |
| instantiate-loop | one weight gradient for each example |
| instantiate-rows | a batched matrix product for each row of the convolution's kernel, or for a few rows |
| instantiate-patches | one batched matrix product with the patches |
| instantiate-forward | a convolution of the input with the output gradient; only for groups of one channel |
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
    grads_by_row,
    weight_grad,
    weight_grad_by_matmul,
)
from fl_dp.engine.gradients.example_chunks import example_chunks
from fl_dp.engine.gradients.kept import Kept, combine_instantiated, keep_instantiated, sum_type
from fl_dp.engine.gradients.layouts import GradientLayout
from fl_dp.engine.gradients.lengths import block_lengths, squared_lengths, squared_total
from fl_dp.engine.sum_error import MOST_POSITIONS

_INSTANTIATE = ("instantiate-grouped", "instantiate-loop", "instantiate-rows", "instantiate-patches")

# Below this 2 T^2 / (p d), one weight gradient per example takes 0.6 of the time of the grouped one; at 0.9
# it takes as long (256 channels on 8x8 positions, 128 on 16x16; one core of a CPU).
_LOOP_IS_FASTER = 1 / 4


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
    def num_examples(self) -> int:
        return self.input.shape[0] // self.images

    @property
    def device(self) -> torch.device:
        return self.input.device

    @property
    def kernels(self) -> tuple[str, ...]:
        ghost = ("ghost-matmul",) if self.positions <= MOST_POSITIONS else ()
        forward = ("instantiate-forward",) if self.shape[1] == 1 else ()
        return (*ghost, *_INSTANTIATE, *forward)

    @property
    def positions(self) -> int:
        return self.images * math.prod(self.grad_output.shape[2:])

    @property
    def ghost_ratio(self) -> float:
        return 2 * self.positions**2 * self.geometry.groups / math.prod(self.shape)

    def keep(self, kernel: str) -> Kept:
        if kernel == "instantiate-grouped":
            return keep_instantiated(self._by_grouped())
        if kernel == "instantiate-loop":
            return keep_instantiated(self._one_by_one())
        if kernel == "instantiate-rows":
            return self._keep_rows()
        if kernel == "instantiate-patches":
            return self._keep_patches()
        if kernel == "instantiate-forward":
            grads = grads_by_forward(*self._by_group(), self.geometry)
            return keep_instantiated(self._sum_images(grads.view(-1, *self.shape)))
        return Kept(self._ghost_norm_squared(), self._by_example(), self._by_matmul, self.positions)

    def instantiate(self) -> Tensor:
        """(N, *shape), by one of two kernels, without a trial."""
        if self.device.type == "cpu" and self.ghost_ratio < _LOOP_IS_FASTER:
            return self._one_by_one()
        return self._by_grouped()

    def _by_grouped(self) -> Tensor:
        """(N, *shape) by one convolution whose groups are the images (Rochette et al. 2019)."""
        images = self.input.shape[0]
        x = self.input.reshape(1, -1, *self.input.shape[2:])
        g = self.grad_output.reshape(1, -1, *self.grad_output.shape[2:])
        shape = (images * self.shape[0], *self.shape[1:])
        grads = weight_grad(g, x, shape, self.geometry, images * self.geometry.groups)
        return self._sum_images(grads.view(-1, *self.shape))

    def first(self, num_examples: int) -> "Conv":
        rows = num_examples * self.images
        return Conv(self.grad_output[:rows], self.input[:rows], self.images, self.geometry)

    def _one_by_one(self) -> Tensor:
        """(N, *shape), by one ordinary weight gradient per example: faster if each is large."""
        g, x = self._by_example()
        grads = g.new_empty(len(g), *self.shape)
        for n, grad in enumerate(grads):
            grad.copy_(weight_grad(g[n], x[n], self.shape, self.geometry, self.geometry.groups))
        return grads

    def _keep_rows(self) -> Kept:
        grads = self._by_row()
        rows, N = grads.shape[:2]
        lengths = block_lengths(grads.view(rows * N, -1)).view(rows, N, -1)
        return Kept(squared_total(lengths, (0, 2)), (grads.transpose(0, 1),), self._combine_rows)

    def _by_row(self) -> Tensor:
        """(rows / s, N, p, s * rest * d / G): gradients in the order of the kernel's rows, without copies."""
        grads = grads_by_row(*self._by_group(), self.geometry)  # (rows / s, N * K * G, p / G, s, ...)
        grads = grads.view(grads.shape[0], self.num_examples, self.images, self.shape[0], -1)
        return grads.squeeze(2) if self.images == 1 else grads.sum(2)

    def _keep_patches(self) -> Kept:
        """Gradients as the matrix product gives them, (N, p, kernel * d / groups)."""
        grads = grads_by_patches(*self._by_group(), self.geometry)  # (N * K * G, p / G, ...)
        grads = self._sum_images(grads.view(self.input.shape[0], self.shape[0], -1))
        return Kept(squared_lengths(grads), (grads,), self._combine_patches)

    def _by_matmul(self, factors: Tensor, grad_output: Tensor, x: Tensor) -> Tensor:
        """By products of a few examples at a time, whose copies take no more memory than the result."""
        dtype, N = sum_type(factors, x), len(x)
        copied = 2 * (grad_output[:1].numel() + x[:1].numel())
        as_many = max(1, math.prod(self.shape) // max(1, copied))
        total: Tensor | None = None
        for part in example_chunks(N, -(-copied // as_many), dtype, x.device):
            found = self._product(factors[part].to(dtype), grad_output[part].to(dtype), x[part].to(dtype))
            total = found if total is None else total.add_(found)
        return x.new_zeros(self.shape, dtype=dtype) if total is None else total

    def _product(self, factors: Tensor, grad_output: Tensor, x: Tensor) -> Tensor:
        factors, G = factors.repeat_interleave(self.images), self.geometry.groups
        groups = zip(grad_output.flatten(0, 1).chunk(G, 1), x.flatten(0, 1).chunk(G, 1), strict=True)
        sums = [weight_grad_by_matmul(g, d, factors, self.geometry) for g, d in groups]
        return sums[0] if G == 1 else torch.cat(sums)

    def _combine_rows(self, factors: Tensor, grads: Tensor) -> Tensor:
        """From grads (N, rows / s, p, s * rest * d / G)."""
        if grads.dtype == sum_type(factors, grads):
            by_row = torch.matmul(factors.to(grads.dtype), grads.transpose(0, 1).flatten(2))
        else:
            by_row = torch.stack([combine_instantiated(factors, row) for row in grads.unbind(1)])
        total = by_row.view(*grads.shape[1:]).movedim(0, 1)
        return total.reshape(total.shape[0], *self.geometry.kernel_size, -1).movedim(-1, 1)

    def _combine_patches(self, factors: Tensor, grads: Tensor) -> Tensor:
        """From grads (N, p, kernel * d / G)."""
        total = combine_instantiated(factors, grads)
        return total.view(total.shape[0], *self.geometry.kernel_size, -1).movedim(-1, 1)

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

    def _ghost_norm_squared(self) -> Tensor:
        """(N,) squared lengths; each group is treated as an example, and an example's groups are added up."""
        N, G = self.num_examples, self.geometry.groups
        g, x = (
            tensor.reshape(N, self.images, G, -1, *tensor.shape[2:]).transpose(1, 2).flatten(0, 2)
            for tensor in (self.grad_output, self.input)
        )
        return ghost_norm_squared(g, x, self.geometry, self.images).view(N, G).sum(1)
