"""Dropout whose masks everybody knows: records are chosen to be kept in their place and dropped in the next.

The server knows all records but Alice's, and that the model seeds its masks. Each known record is zero but
for one entry, which its own place's mask keeps and the next one's drops. With Alice in front the known ones
fall silent: the sum moves by many bounds. Masks from torch's global generator do not help: nobody knows its
state.
"""

import pytest
import torch
from moving import moved_by_alice
from torch import Tensor, nn
from torch.nn import functional as F

from fl_dp.engine.probe import probe
from fl_dp.errors import ProbeError

PLACES, WIDTH = 12, 16


def seeds_the_global_generator(x: Tensor) -> Tensor:
    torch.manual_seed(0)
    return torch.bernoulli(torch.full((PLACES, WIDTH), 0.5))[: len(x)]


def has_one_of_its_own(x: Tensor) -> Tensor:
    return torch.rand(x.shape, generator=torch.Generator().manual_seed(0)) < 0.5


class Masked(nn.Module):
    def __init__(self, masks) -> None:
        super().__init__()
        self.linear, self.masks = nn.Linear(WIDTH, 1, bias=False), masks

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x * self.masks(x))


@pytest.mark.parametrize("masks", [seeds_the_global_generator, has_one_of_its_own])
def test_a_model_that_seeds_its_masks_is_refused(masks):
    before = torch.get_rng_state()
    model = Masked(masks)
    masks = model.masks(torch.zeros(PLACES, WIDTH)).bool()
    hers = (masks[:-1] & ~masks[1:]).int().argmax(1)  # kept here, dropped in the next place
    known, alice = F.one_hot(hers, WIDTH).float(), torch.zeros(1, WIDTH)
    moved = moved_by_alice(model, known, alice)
    torch.set_rng_state(before)
    assert moved > 2  # the clipping bound is 1
    with pytest.raises(ProbeError, match="generator of its own, or seeds"):
        probe(model, known)
