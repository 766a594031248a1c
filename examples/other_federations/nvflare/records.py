"""What both clients share: the model, the records, and how a model is measured. The records are made up."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import TensorDataset

COLUMNS, ROWS = 29, 1000


class TabularMLP(nn.Module):
    """29 columns, two hidden layers, two classes."""

    def __init__(self) -> None:
        super().__init__()
        layers = [
            nn.Linear(COLUMNS, 32),
            nn.ReLU(),
            nn.Dropout(0.2),
            nn.Linear(32, 16),
            nn.ReLU(),
            nn.Linear(16, 2),
        ]
        self.model = nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.model(x)


def train_data(site: str) -> TensorDataset:
    """The records of "site-1", "site-2", ... Nothing is fitted to them, no scale either."""
    return _made_up(int(site.rpartition("-")[2]))


def public_data() -> TensorDataset:
    """Rows that are nobody's secret."""
    return _made_up(0)


def _made_up(seed: int) -> TensorDataset:
    source = torch.Generator().manual_seed(seed)
    inputs = torch.randn(ROWS, COLUMNS, generator=source, dtype=torch.get_default_dtype())
    wave = inputs[:, :8].sum(dim=1) + inputs[:, 8] * inputs[:, 9]
    return TensorDataset(inputs, (wave > 0).long())


def measured(model: nn.Module, data: TensorDataset) -> dict[str, float]:
    """The global model's accuracy and loss; NVFlare's server chooses its best model by "accuracy"."""
    inputs, targets = data.tensors
    model.eval()
    with torch.no_grad():
        outputs = model(inputs)
    model.train()
    accuracy = (outputs.argmax(dim=1) == targets).double().mean().item()
    return {"accuracy": accuracy, "loss": F.cross_entropy(outputs, targets).item()}
