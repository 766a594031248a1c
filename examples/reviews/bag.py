"""A bag of embeddings: the sum of the words' vectors over the root of how many, and a linear layer."""

import torch
from torch import Tensor, nn
from words import PADDING, Reviews, valences

WIDTH = 2  # each more column is more noise to draw, and makes no review clearer
HEAD = 4.0  # the layer's length: so long that the words' vectors move, and it hardly does
TRUST = 4.0  # in the lexicon: what a word of the greatest valence adds to the logit of a review of one word


class Bag(nn.Module):
    """valences: (vocabulary,) by which vectors start along the layer's direction from bad to good."""

    def __init__(self, valences: Tensor, classes: int) -> None:
        super().__init__()
        self.words = nn.EmbeddingBag(len(valences), WIDTH, mode="mean", padding_idx=PADDING)
        self.head = nn.Linear(WIDTH, classes, bias=False)  # as many good reviews as bad: that is public
        nn.init.orthogonal_(self.head.weight, HEAD)
        with torch.no_grad():
            apart = self.head.weight[1] - self.head.weight[0]
            self.words.weight.copy_(TRUST * valences[:, None] * apart / apart.square().sum())

    def forward(self, tokens: Tensor) -> Tensor:
        """(n, T) to (n, classes). Mean times root of how many: no review weighs more for its length."""
        root = (tokens != PADDING).sum(1, keepdim=True).sqrt()
        answers: Tensor = self.head(self.words(tokens) * root)
        return answers


class BagOfWords(Reviews):
    """All words start alike."""

    def model(self) -> nn.Module:
        return Bag(torch.zeros(self.form.vocabulary), self.form.outputs)


class BagFromLexicon(Reviews):
    """Words start where a public lexicon has them; beginnings of words have vectors, too."""

    beginnings = True

    def model(self) -> nn.Module:
        return Bag(valences(self.lexicon), self.form.outputs)
