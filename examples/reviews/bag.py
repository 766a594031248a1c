"""A bag of embeddings: the mean of the words' vectors, and a linear layer on it."""

from torch import Tensor, nn

from fl_dp import Task

WIDTH = 16
PADDING = 0  # of the hashed words, see the setting `tokenizer`


class Bag(nn.Module):
    def __init__(self, vocabulary: int, classes: int) -> None:
        super().__init__()
        self.words = nn.EmbeddingBag(vocabulary, WIDTH, mode="mean", padding_idx=PADDING)
        self.head = nn.Linear(WIDTH, classes)

    def forward(self, tokens: Tensor) -> Tensor:
        answers: Tensor = self.head(self.words(tokens))
        return answers


class BagOfEmbeddings(Task):
    def model(self) -> nn.Module:
        return Bag(self.form.vocabulary, self.form.outputs)
