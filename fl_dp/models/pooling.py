"""Max pooling that is not slow on CPUs."""

import torch
from torch import Tensor, nn


class MaxPool2d(nn.MaxPool2d):
    """`nn.MaxPool2d`: the same numbers, on CPUs computed with the channels last.

    There PyTorch's kernel works on all channels of a pixel at once: 16 channels of 13 x 13 pixels, forward
    and backward, took a third of the time on one core. The result has the channels first again, as
    what comes next expects them.
    """

    def forward(self, input: Tensor) -> Tensor:
        if input.is_cuda:
            return super().forward(input)
        return super().forward(input.contiguous(memory_format=torch.channels_last)).contiguous()
