"""A convolutional network over time, for windows of sensor data (T, channels)."""

from torch import Tensor, nn

from fl_dp.form import Form
from fl_dp.models.build import Model
from fl_dp.models.expect import expect_windows

_LEAST_LENGTH = 4  # each of two poolings halves it


class _TimeLast(nn.Module):
    """(n, T, channels) to (n, channels, T), as convolutions expect."""

    def forward(self, windows: Tensor) -> Tensor:
        return windows.transpose(1, 2)


def cnn1d(form: Form) -> nn.Module:
    """Three convolutions with group norm and tanh, the mean over time, one linear layer.

    For windows of at least 4 time steps, with any number of channels.
    """
    length, channels = expect_windows(form)
    if length < _LEAST_LENGTH:
        raise ValueError(f"it takes windows of at least {_LEAST_LENGTH} time steps")
    return nn.Sequential(
        _TimeLast(),
        *_block(channels, 32),
        nn.MaxPool1d(2),  # (n, 32, T / 2)
        *_block(32, 64),
        nn.MaxPool1d(2),  # (n, 64, T / 4)
        *_block(64, 64),
        nn.AdaptiveAvgPool1d(1),
        nn.Flatten(),
        nn.Linear(64, form.outputs),
    )


def _block(before: int, after: int) -> tuple[nn.Module, ...]:
    return nn.Conv1d(before, after, kernel_size=5, padding=2), nn.GroupNorm(8, after), nn.Tanh()


MODEL = Model(cnn1d)
