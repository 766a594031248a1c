"""Whether a signal rises: a recurrent model written out, a temperature of its own, clipped losses."""

import torch
from torch import nn

from fl_dp import Task

LENGTH, FEATURES = 20, 3


class Rising(nn.Module):
    """A gated cell, step by step. PyTorch's fused nn.LSTM hides its steps from autograd."""

    def __init__(self, hidden: int = 16) -> None:
        super().__init__()
        self.gate = nn.Linear(FEATURES + hidden, hidden)
        self.update = nn.Linear(FEATURES + hidden, hidden)
        self.slope = nn.PReLU(hidden)
        self.out = nn.Linear(hidden, 2)
        self.temperature = nn.Parameter(torch.ones(()))
        self.hidden = hidden

    def forward(self, signals: torch.Tensor) -> torch.Tensor:  # (n, LENGTH, FEATURES) -> (n, 2)
        state = signals.new_zeros(len(signals), self.hidden)
        for step in signals.unbind(1):
            both = torch.cat([step, state], dim=1)
            gate = torch.sigmoid(self.gate(both))
            state = gate * state + (1 - gate) * torch.tanh(self.update(both))
        return self.out(self.slope(state)) * self.temperature


class Signals(Task):
    classes = ("falls", "rises")
    metrics = ("accuracy", "auroc")

    def model(self) -> nn.Module:
        return Rising()

    def losses(self, model: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        inputs, targets = batch
        losses = nn.functional.cross_entropy(model(inputs), targets, reduction="none")
        return losses.clamp_max(5.0)  # (n,): no example of a wrong label counts without end

    def train_data(self) -> tuple[torch.Tensor, torch.Tensor]:
        return records(2000, seed=0)

    def test_data(self) -> tuple[torch.Tensor, torch.Tensor]:
        return records(500, seed=1)


def records(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Noisy lines; the label says whether they rise. Put your own in their place."""
    generator = torch.Generator().manual_seed(seed)
    slopes = torch.randn(count, 1, FEATURES, generator=generator)
    times = torch.linspace(-1, 1, LENGTH).reshape(1, LENGTH, 1)
    noise = torch.randn(count, LENGTH, FEATURES, generator=generator)
    return slopes * times + noise, (slopes.sum(dim=(1, 2)) > 0).long()
