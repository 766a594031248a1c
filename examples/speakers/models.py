"""Two small models of the next character, with few numbers: each of them gets noise."""

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from fl_dp import Task
from fl_dp.form import Form

BEFORE, WIDTH, HIDDEN = 4, 8, 48  # of `Context`
STEEP = 2.0  # a row of `Bigram` is trained by some of the text, the constants by all of it


class Bigram(nn.Module):
    """Tokens (n, T) to (n, T, outputs), by the last character alone. All start alike."""

    def __init__(self, form: Form) -> None:
        super().__init__()
        self.after = nn.Embedding(form.vocabulary, form.outputs)
        self.often = nn.Parameter(torch.zeros(form.outputs))
        nn.init.zeros_(self.after.weight)

    def forward(self, tokens: Tensor) -> Tensor:
        answers: Tensor = STEEP * self.after(tokens) + self.often
        return answers


class Context(nn.Module):
    """Tokens (n, T) to (n, T, outputs), by the last characters: a hidden layer (Bengio et al. 2003).

    What is before a passage is nothing, zeros.
    """

    def __init__(self, form: Form) -> None:
        super().__init__()
        self.characters = nn.Embedding(form.vocabulary, WIDTH)
        self.hidden = nn.Linear(BEFORE * WIDTH, HIDDEN)
        self.head = nn.Linear(HIDDEN, form.outputs)

    def forward(self, tokens: Tensor) -> Tensor:
        before = pad(self.characters(tokens), (0, 0, BEFORE - 1, 0))
        windows = before.unfold(1, BEFORE, 1).flatten(2)  # (n, T, WIDTH * BEFORE)
        answers: Tensor = self.head(torch.tanh(self.hidden(windows)))
        return answers


class Bigrams(Task):
    """9,312 numbers."""

    def model(self) -> nn.Module:
        return Bigram(self.form)


class Contexts(Task):
    """7,056 numbers."""

    def model(self) -> nn.Module:
        return Context(self.form)
