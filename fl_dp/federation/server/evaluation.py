"""The global model on public test data."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import nn

if TYPE_CHECKING:
    from fl_dp.data.tensor_data import TensorData

BATCH_SIZE = 512


@dataclass(frozen=True, slots=True)
class Evaluation:
    """loss: mean cross-entropy in nats; accuracy: share of examples classified rightly."""

    loss: float
    accuracy: float


@torch.no_grad()
def evaluate(model: nn.Module, data: "TensorData", device: torch.device) -> Evaluation:
    """Evaluate in evaluation mode, where the model stays; sums in float64, over all examples."""
    model.to(device).eval()
    loss = torch.zeros((), dtype=torch.float64)
    correct = 0
    for start in range(0, len(data), BATCH_SIZE):
        indices = torch.arange(start, min(start + BATCH_SIZE, len(data)))
        inputs, labels = data.batch(indices)
        logits, labels = model(inputs.to(device)), labels.to(device)
        loss += F.cross_entropy(logits, labels, reduction="sum").double().cpu()
        correct += int((logits.argmax(dim=1) == labels).sum())
    return Evaluation(loss.item() / len(data), correct / len(data))
