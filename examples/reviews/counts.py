"""What the bag is compared with: logistic regression on how often each word stands in a review."""

import torch
from torch import Tensor, nn
from words import PADDING, Reviews, valences

TRUST = 1.5  # in the lexicon: what one word of the greatest valence adds to the logit


class Regression(nn.Module):
    """Weights times counts, as the sum of the weights of all tokens: the same, and without a column a token.

    Without a constant: as many reviews are good as bad, which is public. start: (vocabulary,) first weights
    of good against bad.
    """

    def __init__(self, start: Tensor) -> None:
        super().__init__()
        self.weights = nn.EmbeddingBag(len(start), 2, mode="sum", padding_idx=PADDING)
        with torch.no_grad():
            self.weights.weight.copy_(torch.stack((-start / 2, start / 2), dim=1))

    def forward(self, tokens: Tensor) -> Tensor:
        """(n, T) to (n, 2)."""
        answers: Tensor = self.weights(tokens)
        return answers


class Counts(Reviews):
    """Of the words that `BagOfWords` has."""

    def model(self) -> nn.Module:
        return Regression(torch.zeros(self.form.vocabulary))


class CountsFromLexicon(Reviews):
    """Of the tokens that `BagFromLexicon` has, from the same lexicon."""

    beginnings = True

    def model(self) -> nn.Module:
        return Regression(TRUST * valences(self.lexicon))
