"""The global model on public test data."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import nn

from fl_dp.training.loss import loss_of

if TYPE_CHECKING:
    from fl_dp.data.tensor_data import TensorData

BATCH_SIZE = 512


@dataclass(frozen=True, slots=True)
class Evaluation:
    """loss: the mean of the run's loss; accuracy: share of examples classified rightly."""

    loss: float
    accuracy: float


@torch.no_grad()
def evaluate(model: nn.Module, data: "TensorData", loss_name: str, device: torch.device) -> Evaluation:
    """Evaluate in evaluation mode, where the model stays; sums in float64, over all examples."""
    loss_function = loss_of(loss_name)
    model.to(device).eval()
    loss = torch.zeros((), dtype=torch.float64)
    correct = 0
    for start in range(0, len(data), BATCH_SIZE):
        indices = torch.arange(start, min(start + BATCH_SIZE, len(data)))
        inputs, labels = data.batch(indices)
        outputs, labels = model(inputs.to(device)), labels.to(device)
        loss += loss_function.per_example(outputs, labels).double().sum().cpu()
        correct += int(loss_function.is_right(outputs, labels).sum())
    return Evaluation(loss.item() / len(data), correct / len(data))
