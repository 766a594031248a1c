"""The form of a convolution's weight gradient, in any number of spatial dimensions.

Kernels, measured against one another on the machine that trains (plan.py):
ghost: Gram matrices of patches and output gradients. instantiate-grouped: one weight gradient of a
convolution whose groups are the examples. instantiate-loop: one weight gradient an example.
instantiate-patches: one product of patches and output gradients an example, best for few channels.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fl_dp.engine.forms import Form, Kept, gram_product, keep_instantiated


@dataclass(frozen=True, slots=True)
class Geometry:
    """How a convolution moves over its input: one number per spatial dimension, and the groups."""

    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int


@dataclass(frozen=True, slots=True)
class Conv(Form):
    """Weight gradients of a convolution; an example may bring several images (K > 1)."""

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
        return len(self.input) // self.images

    @property
    def kernels(self) -> tuple[str, ...]:
        return ("ghost", "instantiate-grouped", "instantiate-loop", "instantiate-patches")

    @property
    def ghost_ratio(self) -> float:
        positions = self.images * math.prod(self.grad_output.shape[2:])
        return 2 * positions**2 * self.geometry.groups / math.prod(self.shape)

    def keep(self, kernel: str) -> Kept:
        if kernel == "ghost":
            return Kept(self._ghost_norm_squared(), self._by_example(), self._combine)
        instantiate = {
            "instantiate-grouped": self.instantiate,
            "instantiate-loop": self._one_by_one,
            "instantiate-patches": self._from_patches,
        }
        return keep_instantiated(instantiate[kernel]())

    def instantiate(self) -> Tensor:
        """(N, *shape) by one convolution whose groups are the images (Rochette et al. 2019)."""
        images = self.input.shape[0]
        x = self.input.reshape(1, -1, *self.input.shape[2:])
        g = self.grad_output.reshape(1, -1, *self.grad_output.shape[2:])
        weight_shape = (images * self.shape[0], *self.shape[1:])
        grads = self._weight_grad(g, x, weight_shape, images * self.geometry.groups)
        return grads.view(self.num_examples, -1, *self.shape).sum(1)

    def _one_by_one(self) -> Tensor:
        """(N, *shape), one plain weight gradient an example: faster where each is large."""
        g, x = self._by_example()
        grads = [self._weight_grad(g[n], x[n], self.shape, self.geometry.groups) for n in range(len(x))]
        return torch.stack(grads)

    def _from_patches(self) -> Tensor:
        """(N, *shape), the patches under the kernel times the output gradients, by groups."""
        N, G, p = self.num_examples, self.geometry.groups, self.shape[0]
        right = self._patches().reshape(
            N * self.images * G, math.prod(self.shape[1:]), -1
        )  # (.., d/G * kernel, T)
        left = self.grad_output.reshape(N * self.images * G, p // G, -1)  # (.., p/G, T)
        return torch.bmm(left, right.transpose(1, 2)).view(N, self.images, *self.shape).sum(1)

    def _combine(self, factors: Tensor, grad_output: Tensor, x: Tensor) -> Tensor:
        weights = factors.to(grad_output.dtype).view(-1, *(1,) * (grad_output.dim() - 1))
        g = (grad_output * weights).flatten(0, 1)
        return self._weight_grad(g, x.flatten(0, 1), self.shape, self.geometry.groups)

    def _by_example(self) -> tuple[Tensor, Tensor]:
        """Output gradients (N, K, p, ...) and inputs (N, K, d, ...)."""
        g = self.grad_output.view(self.num_examples, -1, *self.grad_output.shape[1:])
        x = self.input.view(self.num_examples, -1, *self.input.shape[1:])
        return g, x

    def _weight_grad(self, g: Tensor, x: Tensor, shape: tuple[int, ...], groups: int) -> Tensor:
        geometry = self.geometry
        _, grad, _ = torch.ops.aten.convolution_backward(
            g, x, g.new_empty(1).expand(shape), None, geometry.stride, geometry.padding,
            geometry.dilation, False, (0,) * len(geometry.stride), groups, (False, True, False),
        )  # fmt: skip
        return grad  # type: ignore[no-any-return]

    def _ghost_norm_squared(self) -> Tensor:
        """(N,) by groups: the Gram matrices of one group's patches and output gradients."""
        N, G = self.num_examples, self.geometry.groups
        patches = self._patches()  # (N * K, d, *kernel, T)
        T = patches.shape[-1]
        right = patches.reshape(N, -1, G, math.prod(self.shape[1:]), T)  # (N, K, G, d/G * kernel, T)
        left = self.grad_output.reshape(N, -1, G, self.shape[0] // G, T)  # (N, K, G, p/G, T)
        norm_squared = gram_product(_group_rows(left), _group_rows(right))
        return norm_squared.view(N, G).sum(1)

    def _patches(self) -> Tensor:
        """(N * K, d, *kernel, T): the inputs under each kernel element at each output position."""
        geometry = self.geometry
        pads = [side for pad in reversed(geometry.padding) for side in (pad, pad)]
        x = torch.nn.functional.pad(self.input, pads)
        output = self.grad_output.shape[2:]
        spatial = x.stride()[2:]
        taps = tuple(s * d for s, d in zip(spatial, geometry.dilation, strict=True))
        moves = tuple(s * m for s, m in zip(spatial, geometry.stride, strict=True))
        view = x.as_strided((*x.shape[:2], *geometry.kernel_size, *output), (*x.stride()[:2], *taps, *moves))
        return view.reshape(*x.shape[:2], *geometry.kernel_size, -1)


def _group_rows(tensor: Tensor) -> Tensor:
    """(N, K, G, c, T) as (N * G, K * T, c)."""
    N, K, G, c, T = tensor.shape
    return tensor.permute(0, 2, 1, 4, 3).reshape(N * G, K * T, c)
