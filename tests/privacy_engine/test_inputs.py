"""The engine trains models that are called with keywords, mappings and several inputs, as they are."""

import copy

import pytest
import torch
from attached import without_noise
from structured import Called
from torch import Tensor, nn

from fl_dp.errors import ConfigError, ModelError, ProbeError


class Scores(nn.Module):
    """Text and numbers in, two outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.linear = nn.Embedding(11, 4), nn.Linear(6, 4)

    def forward(self, batch: dict[str, Tensor], extra: Tensor | None = None, *, scale: float = 1.0):
        words = self.table(batch["words"]).mean(1)
        numbers = self.linear(batch["numbers"]) * scale
        return {"sum": words + numbers, "parts": (words, numbers if extra is None else numbers * extra)}


def _engine(model: nn.Module) -> torch.optim.Optimizer:
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    without_noise(model, batch_size=5, sample_size=100, max_grad_norm=1e6).attach(optimizer)
    return optimizer


def _batch(n: int = 5) -> dict[str, Tensor]:
    return {"words": torch.randint(0, 11, (n, 3)), "numbers": torch.randn(n, 6)}


CALLS = {
    "a mapping": lambda m, b: m(b)["sum"],
    "a keyword": lambda m, b: m(batch=b)["sum"],
    "a number beside": lambda m, b: m(b, scale=2.0)["parts"][1],
    "another tensor": lambda m, b: m(b, b["numbers"][:, :1])["parts"][1],
}


@pytest.mark.parametrize("case", CALLS)
def test_an_unclipped_step_without_noise_is_plain_sgd(case):
    torch.manual_seed(0)
    model, batch = Scores(), _batch()
    plain = copy.deepcopy(model)
    optimizer, by_hand = _engine(model), torch.optim.SGD(plain.parameters(), lr=1.0)
    for _ in range(2):
        optimizer.step(loss=CALLS[case](model, batch).sin().sum(1))
        by_hand.zero_grad()
        CALLS[case](plain, batch).sin().sum(1).mean().backward()
        by_hand.step()
    for private, public in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(private, public, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("n", [0, 1])
def test_the_first_batch_may_be_empty_or_of_one_example(n):
    model = Scores()
    optimizer = _engine(model)
    for size in (n, 7):
        optimizer.step(loss=model(_batch(size))["sum"].sum(1))


def test_a_model_that_was_not_called_is_refused():
    model = Scores()
    optimizer = _engine(model)
    with pytest.raises(ConfigError, match=r"not called after attach\(\)"):
        optimizer.step(loss=model.linear(torch.randn(5, 6)).sum(1))


def test_losses_without_gradients_are_refused_as_such():
    """Not as of a model that was not called: it was."""
    model = Scores()
    optimizer = _engine(model)
    for _ in range(2):
        with torch.no_grad():
            losses = model(_batch(7))["sum"].sum(1)
        with pytest.raises(ModelError, match="no gradients"):
            optimizer.step(loss=losses)
        optimizer.step(loss=model(_batch(7))["sum"].sum(1))


def test_a_model_called_without_examples_is_refused():
    model = Called(nn.Embedding(5, 3), lambda m: m.weight)
    optimizer = _engine(model)
    with pytest.raises(ModelError, match="without a tensor that could hold examples"):
        optimizer.step(loss=model().sum(1))


def test_a_model_that_needs_other_inputs_is_refused_with_a_way_out():
    """Edges (2, E) name nodes of the real batch."""
    model = Called(nn.Linear(6, 3), lambda m, x, edges: m(x).index_add(0, edges[0], x[edges[1], :3]))
    optimizer = _engine(model)
    losses = model(torch.randn(9, 6), torch.tensor([[0, 8], [7, 3]])).sum(1)
    with pytest.raises(ProbeError, match=r"raised \w+ on 3 synthetic examples.*[Ww]rap the model"):
        optimizer.step(loss=losses)
