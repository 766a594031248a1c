"""A bag of embeddings: the mean of the words' vectors, and a linear layer on it.

The words of a public list, that say least, are left out. Nothing is looked up in the reviews.
"""

import dataclasses

import torch
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS
from torch import Tensor, nn

from fl_dp import Task
from fl_dp.data.tensor_data import TensorData
from fl_dp.data.tokens import encoder_of

WIDTH = 8
PADDING = 0  # of the hashed words, see the setting `tokenizer`
MARKS = ". , ' - ? ! ; : ( ) ` *"


class Bag(nn.Module):
    """Words start alike, and the layer at numbers of about 1: what moves first is the words."""

    def __init__(self, vocabulary: int, classes: int) -> None:
        super().__init__()
        self.words = nn.EmbeddingBag(vocabulary, WIDTH, mode="mean", padding_idx=PADDING)
        self.head = nn.Linear(WIDTH, classes)
        nn.init.normal_(self.words.weight, std=0.01)
        nn.init.normal_(self.head.weight, std=1.0)

    def forward(self, tokens: Tensor) -> Tensor:
        answers: Tensor = self.head(self.words(tokens))
        return answers


class BagOfEmbeddings(Task):
    def model(self) -> nn.Module:
        return Bag(self.form.vocabulary, self.form.outputs)

    def train_data(self) -> TensorData:
        return self._telling(super().train_data())

    def test_data(self) -> TensorData:
        return self._telling(super().test_data())

    def _telling(self, reviews: TensorData) -> TensorData:
        """Without the words of the list. A ledger knows reviews by their lines, which stay as they are."""
        common = encoder_of(self.settings.tokenizer).running(" ".join(ENGLISH_STOP_WORDS) + MARKS)[0]
        left_out = torch.isin(reviews.x, torch.from_numpy(common))
        return dataclasses.replace(reviews, x=torch.where(left_out, PADDING, reviews.x))
