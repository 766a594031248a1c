"""A model is checked in every mode, and again when a step uses it in a new way."""

import torch
from attached import attached, losses_of, small_batch
from torch import Tensor, nn

X, Y = small_batch()


def test_models_that_skip_layers_or_use_them_later_are_checked_again():
    class Skips(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(6))
            self.late, self.head, self.is_late = nn.Linear(6, 6), nn.Linear(6, 3), False

        def forward(self, x: Tensor) -> Tensor:
            for layer in self.layers:
                if torch.bernoulli(torch.tensor(0.5)):
                    x = torch.tanh(layer(x))
            return self.head(self.late(x) if self.is_late else x)

    model, optimizer, engine = attached(Skips())
    for step in range(8):
        model.is_late = step > 4
        optimizer.step(loss=losses_of(model, X, Y))
    assert engine.steps == 8
