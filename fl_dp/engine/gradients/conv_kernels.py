"""The arithmetic of a convolution's weight gradient, in any number of spatial dimensions.

A grouped convolution is treated as a batch of smaller ones: an image here is one group of one image.
M images, d input and p output channels, T output positions, k kernel elements.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from fl_dp.engine.gradients.example_chunks import example_chunks
from fl_dp.engine.gradients.ghost_norm_bounds import least_square, rounded_up, row_lengths
from fl_dp.engine.gradients.gram import gram_product, inner_products
from fl_dp.engine.gradients.lengths import wide_type
from fl_dp.engine.precision import full_precision

# Moving one number takes as long as about this many multiplications in a matrix product (one CPU core).
_MEMORY_COST = 40


@dataclass(frozen=True, slots=True)
class Geometry:
    """How a convolution moves over its input: one number per spatial dimension, and the groups."""

    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int


def weight_grad(
    grad_output: Tensor, x: Tensor, shape: tuple[int, ...], geometry: Geometry, groups: int
) -> Tensor:
    """The gradient of a weight of `shape`, summed over all images, by PyTorch's own backward function."""
    _, grad, _ = torch.ops.aten.convolution_backward(
        grad_output,
        x,
        grad_output.new_empty(1).expand(shape),
        None,
        geometry.stride,
        geometry.padding,
        geometry.dilation,
        False,
        (0,) * len(geometry.stride),
        groups,
        (False, True, False),
    )
    return grad  # type: ignore[no-any-return]


def grads_by_forward(grad_output: Tensor, x: Tensor, geometry: Geometry) -> Tensor:
    """(M, p, 1, *kernel) for d = 1: the input convolved with the output gradient as the kernel.

    The stride is used as the dilation and the dilation as the stride. On CPUs this is several times
    faster than PyTorch's own weight gradient of depthwise convolutions.
    """
    M, p = grad_output.shape[:2]
    grads = torch.convolution(
        x.reshape(1, M, *x.shape[2:]),
        grad_output.reshape(M * p, 1, *grad_output.shape[2:]),
        None,
        geometry.dilation,
        geometry.padding,
        geometry.stride,
        False,
        [0] * len(geometry.stride),
        M,
    )
    for dim, size in enumerate(geometry.kernel_size, start=2):
        grads = grads.narrow(dim, 0, size)  # drops inputs that a strided kernel never reached
    return grads.reshape(M, p, 1, *geometry.kernel_size)


def grads_by_patches(grad_output: Tensor, x: Tensor, geometry: Geometry) -> Tensor:
    """(M, p, kernel * d): one batched matrix product with the patches, of a few images at a time."""
    left = grad_output.flatten(2)
    features = math.prod(geometry.kernel_size) * x.shape[1]
    grads = left.new_empty(*left.shape[:2], features)
    for part in example_chunks(left.shape[0], left.shape[2] * features, x.dtype, x.device):
        patches = _patches(x[part], geometry, grad_output.shape[2:])
        torch.bmm(left[part], patches, out=grads[part])
    return grads


def weight_grad_by_matmul(grad_output: Tensor, x: Tensor, factors: Tensor, geometry: Geometry) -> Tensor:
    """(p, d, *kernel): the sums of factor times gradient over B blocks of M images, added up.

    grad_output: (B, M, p, ...), x: (B, M, d, ...), factors: (B, M), all of one type. A block is one matrix
    product for each kernel row. No number passes through more additions than its images have positions.
    """
    B, M, p, *output = grad_output.shape
    rest = range(4, 3 + len(output))
    by_row = grad_output.permute(0, 2, 3, 1, *rest)  # (B, p, Ho, M, rest of the output)
    left = (by_row * factors.view(B, 1, 1, M, *(1 for _ in rest))).reshape(B, p, -1)
    width, taps = M * math.prod(output[1:]), math.prod(geometry.kernel_size[1:])
    rows = torch.unflatten(_unfolded(x.flatten(0, 1), geometry, output), 0, (B, M))
    rows = rows.movedim((2, 0, 3, 1), (0, 1, 2, 3))  # (phases, B, Hq, M, rest, taps, d)
    rows = rows.reshape(len(rows), B, rows.shape[2] * width, taps * x.shape[2])
    total = left.new_empty(geometry.kernel_size[0], B, p, taps * x.shape[2])
    for part, (phase, first) in zip(total, _row_starts(geometry), strict=True):
        torch.bmm(left, rows[phase, :, first * width : (first + output[0]) * width], out=part)
    summed = total.sum(1) if B > 1 else total.squeeze(1)  # (kernel rows, p, taps * d)
    return summed.view(-1, p, *geometry.kernel_size[1:], x.shape[2]).movedim((1, -1), (0, 1))


def _row_starts(geometry: Geometry) -> list[tuple[int, int]]:
    """For each kernel row: the phase of the stride that it reads, and its first row in that phase."""
    stride = geometry.stride[0]
    offsets = [i * geometry.dilation[0] for i in range(geometry.kernel_size[0])]
    return [(offset % stride, offset // stride) for offset in offsets]


def _unfolded(x: Tensor, geometry: Geometry, output: list[int]) -> Tensor:
    """A view (M, phases, Hq, rest of the output, rest of the kernel, d) of the padded input.

    Row r of phase q is row q + r * stride of the padded input. The inputs that one row of the kernel
    meets at all output rows are then consecutive rows of one phase.
    """
    M, d = x.shape[:2]
    stride = geometry.stride[0]
    num_rows = max(first for _, first in _row_starts(geometry)) + output[0]
    sizes = _padded_sizes(x, geometry)
    sizes[0] = max(sizes[0], stride * num_rows)
    padded = _channels_last(x, geometry, sizes)
    steps = padded.stride()[1:-1]
    moves = [step * s for step, s in zip(steps, geometry.stride, strict=True)]
    taps = [step * s for step, s in zip(steps, geometry.dilation, strict=True)]
    return padded.as_strided(
        (M, stride, num_rows, *output[1:], *geometry.kernel_size[1:], d),
        (padded.stride(0), steps[0], moves[0], *moves[1:], *taps[1:], 1),
    )


def ghost_norm_squared(
    grad_output: Tensor, x: Tensor, geometry: Geometry, images: int
) -> tuple[Tensor, Tensor]:
    """(N,) squared lengths, rounded up, and (N,) `least_square`; `images` adjacent images belong to one
    example.
    """
    d, kernel_elements = x.shape[1], math.prod(geometry.kernel_size)
    positions = math.prod(grad_output.shape[2:])
    padded = math.prod(_padded_sizes(x, geometry))
    patch_numbers = images * positions * d * kernel_elements
    shift_work = padded**2 * d + _MEMORY_COST * positions**2 * kernel_elements
    by_shifts = images == 1 and shift_work <= patch_numbers * (positions + _MEMORY_COST)
    numbers = 2 * (padded**2 + positions**2) if by_shifts else patch_numbers
    kernel = _from_shifts if by_shifts else _from_patches
    found = []
    for part in example_chunks(len(x) // images, numbers, x.dtype, x.device):
        rows = slice(part.start * images, part.stop * images)
        found.append(kernel(grad_output[rows], x[rows], geometry, images))
    sums, squares = zip(*found, strict=True)
    return torch.cat(sums), torch.cat(squares)


def _from_shifts(grad_output: Tensor, x: Tensor, geometry: Geometry, images: int) -> tuple[Tensor, Tensor]:
    """The Gram matrix of the patches is the sum over kernel elements of shifted Gram matrices of the input.

    The shifted matrices are added along one spatial dimension after the other. The patches are never
    formed, and the arithmetic is k times less than with them. An entry passes through at most d + k
    operations, on numbers that add up to at most |patch_t| |patch_s| (Cauchy and Schwarz over the kernel
    elements).
    """
    dtype = wide_type(x.dtype)
    x = F.pad(x, [side for pad in reversed(geometry.padding) for side in (pad, pad)]).to(dtype)
    left, right = grad_output.flatten(2).to(dtype), x.flatten(2)
    d, p, positions = x.shape[1], left.shape[1], left.shape[2]
    with full_precision(x.device):
        left_gram = torch.bmm(left.transpose(1, 2), left)
        gram = torch.bmm(right.transpose(1, 2), right).view(-1, *x.shape[2:], *x.shape[2:])
    right_gram = _shifted_sum(gram, geometry, grad_output.shape[2:]).reshape(left_gram.shape)
    kernel_elements = math.prod(geometry.kernel_size)
    terms = row_lengths(left_gram, p) * row_lengths(right_gram, d * kernel_elements)
    length = p + d + kernel_elements + 2 * positions
    total = rounded_up(inner_products(left_gram, right_gram), terms, length)
    return total, least_square(terms, length)


def _shifted_sum(gram: Tensor, geometry: Geometry, output: torch.Size) -> Tensor:
    """(n, *output, *output) from (n, *padded input, *padded input)."""
    dims = len(output)
    for i in reversed(range(dims)):  # the last dimension first leaves longer runs of memory for the others
        stride, dilation = geometry.stride[i], geometry.dilation[i]
        span = stride * (output[i] - 1)
        taps = [slice(k * dilation, k * dilation + span + 1, stride) for k in range(geometry.kernel_size[i])]
        before = (slice(None),) * (1 + i)
        between = (slice(None),) * (dims - 1)
        views = [gram[(*before, tap, *between, tap)] for tap in taps]
        gram = views[0].clone() if len(views) > 1 else views[0]
        for view in views[1:]:
            gram += view
    return gram


def _from_patches(grad_output: Tensor, x: Tensor, geometry: Geometry, images: int) -> tuple[Tensor, Tensor]:
    """Gram matrices of the patches (T, d * kernel) and of the output gradients (T, p)."""
    N = len(x) // images
    patches = _patches(x, geometry, grad_output.shape[2:])  # (M, T, kernel * d)
    left = grad_output.reshape(N, images, grad_output.shape[1], -1)
    return gram_product(left.transpose(2, 3).flatten(1, 2), patches.view(N, -1, patches.shape[2]))


def _patches(x: Tensor, geometry: Geometry, output: torch.Size) -> Tensor:
    """(M, T, kernel * d): the inputs under each kernel element at each output position.

    The channels are last, so that numbers that are neighbours here are neighbours in the input, too.
    """
    padded = _channels_last(x, geometry, _padded_sizes(x, geometry))
    steps = padded.stride()[1:-1]
    moves = [step * s for step, s in zip(steps, geometry.stride, strict=True)]
    taps = [step * s for step, s in zip(steps, geometry.dilation, strict=True)]
    view = padded.as_strided(
        (x.shape[0], *output, *geometry.kernel_size, x.shape[1]), (padded.stride(0), *moves, *taps, 1)
    )
    return view.reshape(x.shape[0], output.numel(), -1)


def _padded_sizes(x: Tensor, geometry: Geometry) -> list[int]:
    return [size + 2 * pad for size, pad in zip(x.shape[2:], geometry.padding, strict=True)]


def _channels_last(x: Tensor, geometry: Geometry, sizes: list[int]) -> Tensor:
    """(M, *sizes, d): the images padded with zeros on both sides; a view where nothing has to be moved."""
    x = x.movedim(1, -1)
    margins = [0, 0]  # of the last dimension first
    for pad, size, inner in zip(geometry.padding[::-1], sizes[::-1], x.shape[-2:0:-1], strict=True):
        margins += [pad, size - pad - inner]
    return (F.pad(x, margins) if any(margins) else x).contiguous()
