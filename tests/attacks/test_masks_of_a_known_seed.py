"""Dropout whose masks everybody knows: records are chosen to be kept in their place and dropped in the next.

The server knows all records but Alice's, and that the model seeds its masks itself. So it knows the mask of
every place. Each known record is zero but for one entry, which the mask of its own place keeps and that of
the next place drops. With Alice's record in front the known ones fall silent: the sum moves by many times
the bound.

Masks from torch's global generator do not help the server, which cannot know its state.
"""

import pytest
import torch
from definition import clipped_by_engine, length
from torch import Tensor, nn
from torch.nn import functional as F

from fl_dp.engine.probe import probe
from fl_dp.errors import ProbeError

PLACES, WIDTH = 12, 16


def seeds_the_global_generator(x: Tensor) -> Tensor:
    torch.manual_seed(0)
    return torch.bernoulli(torch.full((PLACES, WIDTH), 0.5))[: len(x)]


def seeds_it_for_a_while(x: Tensor) -> Tensor:
    with torch.random.fork_rng(devices=[]):
        return seeds_the_global_generator(x)


def has_one_of_its_own(x: Tensor) -> Tensor:
    return torch.rand(x.shape, generator=torch.Generator().manual_seed(0)) < 0.5


def _goes_back(state: Tensor):
    def masks(x: Tensor) -> Tensor:
        torch.set_rng_state(state)
        return torch.rand(x.shape) < 0.5

    return masks


class Masked(nn.Module):
    def __init__(self, masks) -> None:
        super().__init__()
        self.linear, self.masks = nn.Linear(WIDTH, 1, bias=False), masks

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x * self.masks(x))


MASKS = {
    "seeds": seeds_the_global_generator,
    "seeds for a while": seeds_it_for_a_while,
    "own": has_one_of_its_own,
    "goes back": _goes_back(torch.Generator().manual_seed(3).get_state()),
}


@pytest.mark.parametrize("case", MASKS)
def test_a_model_that_seeds_its_masks_is_refused(case):
    before = torch.get_rng_state()
    model = Masked(MASKS[case])
    masks = model.masks(torch.zeros(PLACES, WIDTH)).bool()
    hers = (masks[:-1] & ~masks[1:]).int().argmax(1)  # kept here, dropped in the next place
    known, alice = F.one_hot(hers, WIDTH).float(), torch.zeros(1, WIDTH)
    without, with_her = (
        clipped_by_engine(model, batch, 1.0, loss=lambda m, x: m(x)[:, 0]).grads["linear.weight"]
        for batch in (known, torch.cat([alice, known]))
    )
    torch.set_rng_state(before)
    assert length({"moved": with_her - without}) > 2  # the clipping bound is 1
    with pytest.raises(ProbeError, match="generator of its own, or seeds"):
        probe(model, known)


def test_a_pass_that_seeds_the_global_generator_and_draws_nothing_is_refused():
    """The noise of the step may come from it."""

    def seeds(x: Tensor) -> Tensor:
        torch.manual_seed(0)
        return torch.ones_like(x)

    with pytest.raises(ProbeError, match="seeds torch's global one"):
        probe(Masked(seeds), torch.zeros(PLACES, WIDTH))


def test_dropout_is_accepted():
    assert probe(Masked(lambda x: torch.rand(x.shape) < 0.5), torch.zeros(PLACES, WIDTH)).batch
