"""A step of jax_privacy, on models that are one sequence of plain layers, translated from PyTorch.

Its memory is JAX's own, which PyTorch does not count. Products may be in TensorFloat-32, JAX's default there.
"""

import os
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn


def jax_step(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    max_grad_norm: float,
    noise_multiplier: float,
    learning_rate: float,
) -> tuple[Callable[[], None], Callable[[], list[Any]]]:
    """What takes a step of clipping, Gaussian noise and SGD, compiled; and what gives the parameters.

    NotImplementedError for a model that is not translated.
    """
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # others need the card, too
    import jax
    import jax_privacy
    import optax

    place = jax.devices("gpu" if inputs.is_cuda else "cpu")[0]
    forward = _sequence(model)

    def loss(parameters: Any, inputs: Any, targets: Any) -> Any:
        return optax.softmax_cross_entropy_with_integer_labels(forward(parameters, inputs), targets).sum()

    clipped = jax_privacy.clipped_grad(loss, l2_clip_norm=max_grad_norm, batch_argnums=(1, 2))
    stddev = noise_multiplier * max_grad_norm
    noise = jax_privacy.noise_addition.gaussian_privatizer(stddev=stddev, prng_key=0)
    size = len(inputs)

    @jax.jit
    def update(parameters: Any, state: Any, inputs: Any, targets: Any) -> Any:
        noisy, state = noise.update(clipped(parameters, inputs, targets), state)
        return jax.tree.map(lambda p, g: p - learning_rate / size * g, parameters, noisy), state

    def moved(tensor: Tensor) -> Any:
        return jax.device_put(tensor.detach().cpu().numpy(), place)

    parameters = [moved(parameter) for parameter in model.parameters()]
    batch, held = (moved(inputs), moved(targets)), [parameters, noise.init(parameters)]

    def step() -> None:
        held[:] = jax.block_until_ready(update(*held, *batch))

    return step, lambda: held[0]


def _sequence(model: nn.Module) -> Callable[[Any, Any], Any]:
    """A function of the parameters, in PyTorch's order, and the inputs (N, C, H, W)."""
    import jax.numpy as jnp
    from jax import lax
    from jax import nn as functions

    layers = list(model) if isinstance(model, nn.Sequential) else [model]

    def forward(parameters: Any, x: Any) -> Any:
        left = iter(parameters)
        for layer in layers:
            match layer:
                case nn.Conv2d(groups=1, dilation=(1, 1), padding=(int(), int()) as sides):
                    padding = [(side, side) for side in sides]
                    x = lax.conv_general_dilated(x, next(left), layer.stride, padding)
                    x = x + next(left)[:, None, None] if layer.bias is not None else x
                case nn.Linear():
                    x = x @ next(left).T
                    x = x + next(left) if layer.bias is not None else x
                case nn.GroupNorm(affine=True):
                    groups = x.reshape(len(x), layer.num_groups, -1)
                    groups = (groups - groups.mean(-1, keepdims=True)) * lax.rsqrt(
                        groups.var(-1, keepdims=True) + layer.eps
                    )
                    x = groups.reshape(x.shape) * next(left)[:, None, None] + next(left)[:, None, None]
                case nn.MaxPool2d(padding=0, dilation=1):
                    window = (1, 1, layer.kernel_size, layer.kernel_size)
                    strides = (1, 1, layer.stride, layer.stride)
                    x = lax.reduce_window(x, -jnp.inf, lax.max, window, strides, "VALID")
                case nn.ReLU():
                    x = functions.relu(x)
                case nn.Tanh():
                    x = jnp.tanh(x)
                case nn.Flatten():
                    x = x.reshape(len(x), -1)
                case _:
                    raise NotImplementedError(f"{type(layer).__name__} is not translated to JAX")
        return x

    return forward
