"""What the bag is compared with: how often each hashed word stands in a review, for logistic regression."""

import torch

from fl_dp import Task
from fl_dp.data.tensor_data import TensorData

PADDING = 0


class Counts(Task):
    def train_data(self) -> TensorData:
        return counted(super().train_data())

    def test_data(self) -> TensorData:
        return counted(super().test_data())


def counted(reviews: TensorData) -> TensorData:
    """float32 (n, vocabulary) in the place of tokens; a ledger knows the same reviews by their raw lines."""
    counts = torch.zeros(len(reviews), reviews.vocabulary)
    counts.scatter_add_(1, reviews.x, torch.ones_like(reviews.x, dtype=torch.float32))
    counts[:, PADDING] = 0.0
    return TensorData(counts, reviews.y, reviews.classes, raw=reviews.raw)
