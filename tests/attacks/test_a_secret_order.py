"""Weights under which every block of examples rounds alike: in a known order one record moves all blocks.

Examples follow each other with the period of a block, and their terms cancel as far as is allowed. So the
rounding of a block is the same for all blocks. A record in front moves each of the others by one place: every
block then rounds in another way, again all alike, and the sum moves with the number of records. In an order
that is uniformly random and secret, two neighbouring batches can be compared place by place: the new record
takes some place, and the one that was there goes to the end. So only two blocks differ (docs/rounding.md).
"""

from dataclasses import replace
from itertools import permutations

import pytest
import torch
from objectives import objective_for
from torch import nn
from torch.nn import functional as F
from trainers import plan_of, trainer_for

from fl_dp.data.tensor_data import TensorData
from fl_dp.engine import sum_error
from fl_dp.engine.clipping import clipped_grad_sum
from fl_dp.engine.gradients.outer_products import Outer
from fl_dp.engine.kernel_choice.chooser import KernelChooser
from fl_dp.engine.sum_error import ORDERED_ERROR, additions
from fl_dp.errors import ModelError
from fl_dp.training.clipped_passes import ClippedPasses

T, WIDTH = 16, 3
ADDING = additions(T, 2**20, 2**20, ordered=True)


def cancelling(number: int) -> Outer:
    """Examples whose terms cancel, and are together 0.9 times as long as is allowed, 2 sqrt(T)."""
    left, right = torch.rand(number, T, WIDTH) + 0.5, torch.rand(number, T, WIDTH) + 0.5
    left[:, T // 2 :], right[:, T // 2 :] = -left[:, : T // 2], right[:, : T // 2]
    terms = left.norm(dim=2, keepdim=True) * right.norm(dim=2, keepdim=True)
    return Outer(left * 0.9 * 2 / T**0.5 / terms, right)


def summed(layout: Outer, places: torch.Tensor) -> torch.Tensor:
    chosen = Outer(layout.left[places], layout.right[places]).keep("ghost")
    return chosen.weighted_sum(torch.ones(len(places)), ADDING).double()


def moved(before: torch.Tensor, after: torch.Tensor, layout: Outer, new: int) -> float:
    """How much further apart two sums are than the vector of the new record."""
    own = layout.left[new].double().T @ layout.right[new].double()
    return float((summed(layout, after) - summed(layout, before) - own).norm())


def test_a_record_moves_two_blocks_in_a_secret_order_and_all_in_a_known_one():
    torch.manual_seed(0)
    layout, new = cancelling(ADDING.rows + 1), torch.tensor([ADDING.rows])
    by_all = []
    for number in (2**8, 2**11):
        known = torch.arange(number) % ADDING.rows
        by_all.append(moved(known, torch.cat([new, known]), layout, ADDING.rows))
        order = known[torch.randperm(number)]
        for place in (0, number // 2, number - 1):
            after = torch.cat([order, order[place : place + 1]])
            after[place] = ADDING.rows
            by_two = moved(order, after, layout, ADDING.rows)
            assert by_two < ORDERED_ERROR / 1000
    assert by_all[1] == pytest.approx(8 * by_all[0], rel=0.1)
    assert by_all[1] > 100 * by_two


@pytest.mark.parametrize("number", range(1, 6))
def test_orders_with_one_record_more_are_orders_without_it_and_a_place(number):
    """Each pair once: so the same number of orders with the record stands against each without it."""
    pairs = set()
    for order in permutations(range(number + 1)):
        *rest, last = order
        place = order.index(number)
        without = tuple(last if one == number else one for one in rest) if place < number else tuple(rest)
        pairs.add((without, place))
    assert pairs == {(one, place) for one in permutations(range(number)) for place in range(number + 1)}


class Net(nn.Module):
    """Layers whose blocks have 1, 2, 8 and 64 examples. It raises for a negative first number."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Conv2d(1, 3, 3, padding=1), nn.Conv2d(3, 4, 3, stride=2, padding=1)
        self.third, self.last = nn.Conv2d(4, 4, 3, stride=2, padding=1), nn.Linear(4 * 4 * 4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if (x[:, 0, 0, 0] == -7).any():
            raise ValueError("a record that no pass can take")
        x = torch.tanh(self.first(x))
        x = torch.tanh(self.third(torch.tanh(self.second(x))))
        return self.last(x.flatten(1))


ROWS = 8
GHOSTS = {f"{name}.weight": "ghost-matmul" for name in ("first", "second", "third")}


@pytest.fixture
def played(monkeypatch):
    """Calls a trainer's clipped sum of records in an order; returns the blocks of the passes that counted.

    Also layers as small as these are added in blocks.
    """
    monkeypatch.setattr(sum_error, "_LEAST_PRODUCTS", 1)
    sum_error.additions.cache_clear()
    seen: list[tuple[str, torch.Tensor]] = []
    passes: list[list[tuple[str, torch.Tensor]]] = []
    keep, whole, tried = KernelChooser.keep, ClippedPasses.sum_of_pass, ClippedPasses.clipped_or_none

    def noted(self, name, layout):
        kept = keep(self, name, layout)

        def combine(factors, *parts):
            seen.append((name, found := kept.combine(factors, *parts)))
            seen[-1] = name, found.clone()
            return found

        def of_blocks(factors, *parts):
            products, bmm = [], torch.bmm

            def noted_product(*matrices, **into):
                products.append(bmm(*matrices, **into))
                return products[-1]

            with monkeypatch.context() as patch:
                patch.setattr(torch, "bmm", noted_product)
                found = kept.of_blocks(factors, *parts)
            for blocks in zip(*products, strict=True):
                seen.append((name, torch.stack(blocks).clone()))
            return found

        return replace(kept, combine=combine, of_blocks=kept.of_blocks and of_blocks)

    def sum_of_pass(self, *args, **kwargs):
        seen.clear()
        return whole(self, *args, **kwargs)

    def clipped_or_none(self, *args, **kwargs):
        found = tried(self, *args, **kwargs)
        passes.append(list(seen))
        return found

    monkeypatch.setattr(KernelChooser, "keep", noted)
    monkeypatch.setattr(ClippedPasses, "sum_of_pass", sum_of_pass)
    monkeypatch.setattr(ClippedPasses, "clipped_or_none", clipped_or_none)

    def play(data, order):
        trainer = trainer_for(Net(), objective_for(data.form), plan_of(max_grad_norm=1e-3))
        trainer.use_kernels(GHOSTS)
        trainer.declare_shapes()
        passes.clear()
        trainer._clipped_sum(data, torch.tensor(order), ROWS)
        return [list(one) for one in passes]

    yield play
    sum_error.additions.cache_clear()


def differing(before, after):
    """(pass, parameter, block) whose bits differ. A pass that is missing has none."""
    found = set()
    for number, (one, other) in enumerate(zip(before, after, strict=False)):
        assert [name for name, _ in one] == [name for name, _ in other]
        counts: dict[str, int] = {}
        for (name, block), (_, same) in zip(one, other, strict=True):
            counts[name] = counts.get(name, -1) + 1
            if not torch.equal(block, same):
                found.add((number, name, counts[name]))
    return found


def blocks_of(place: int) -> set[tuple[int, str, int]]:
    """Those that hold a place."""
    number, within = divmod(place, ROWS)
    rows = {"first.weight": 256, "second.weight": 64, "third.weight": 16}
    names = ["first.weight", "second.weight", "third.weight", "last.weight"]
    names += [name.replace("weight", "bias") for name in names]
    return {
        (number, name, within // min(ROWS, additions(rows.get(name, 1), 2**20, 2**20, ordered=True).rows))
        for name in names
    }


HARMS = (
    "none",
    "the new one is not finite",
    "the new one raises",
    "the old one raises",
    "a third one raises",
)


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("number", [5, 8, 13, 16])
def test_of_all_passes_only_the_blocks_of_two_places_differ(played, number, harm):
    torch.manual_seed(1)
    x, y = torch.rand(20, 1, 16, 16), torch.arange(20) % 3
    new, order = 19, torch.randperm(19)[:number].tolist()
    place = number // 2
    old, third = order[place], order[(place + 1) % number]
    raising = {"the new one raises": new, "the old one raises": old, "a third one raises": third}
    if harm == "the new one is not finite":
        x[new] = 3e38
    elif harm in raising:
        x[raising[harm], 0, 0, 0] = -7
    data = TensorData(x, y, ("a", "b", "c"))
    after = [*order[:place], new, *order[place + 1 :], old]
    before, with_it = played(data, order), played(data, after)
    found = differing(before, with_it)
    assert found
    assert found <= blocks_of(place) | blocks_of(number)


def test_a_record_that_raises_leaves_all_others_in_their_blocks():
    """One by one they would round otherwise; these are the bits of a pass with a copy in its place."""
    torch.manual_seed(1)
    x = torch.rand(8, 1, 16, 16)
    data = TensorData(x, torch.arange(8) % 3, ("a", "b", "c"))
    trainer = trainer_for(Net(), objective_for(data.form), plan_of())
    trainer.use_kernels(GHOSTS)
    trainer.declare_shapes()
    batch, counted = data.batch(torch.arange(8)), torch.arange(8) != 3
    replaced = tuple(part.clone() for part in batch)
    for part in replaced:
        part[3] = part[0]
    batch[0][3, 0, 0, 0] = -7
    found = trainer.clipped.clipped_or_none(batch, ROWS)
    expected = trainer.clipped.sum_of_pass(replaced, ROWS, counted=counted)
    assert len(found.norms) == 7
    for name, grad in expected.grads.items():
        assert found.grads[name].dtype == grad.dtype
        assert torch.equal(found.grads[name], grad)


@pytest.mark.parametrize("longest", [1, 2])
def test_a_record_that_decides_the_shape_of_a_pass_adds_nothing(longest):
    """The rows of a block follow from the shape, and with them how all others are added."""

    class Trimmed(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.last = nn.Linear(4, 3), nn.Linear(1, 3)

        def forward(self, x):
            kept = longest if (x[:, 0, 0] > 2).any() else 4
            return self.layer(x[:, :kept]).sum(1) + self.last(x[:, 0, :1])

    torch.manual_seed(0)
    data = TensorData(torch.rand(6, 5, 4), torch.arange(6) % 3, ("a", "b", "c"))
    trainer = trainer_for(Trimmed(), objective_for(data.form), plan_of())
    trainer.use_kernels({"layer.weight": "ghost", "last.weight": "ghost"})
    trainer.declare_shapes()
    batch = data.batch(torch.arange(6))
    assert len(trainer.clipped.clipped_or_none(batch, 8).norms) == 6
    batch[0][3, 0, 0] = 9.0
    with pytest.raises(ModelError, match="records would decide the shape"):
        trainer.clipped.sum_of_pass(batch, 8)
    assert len(trainer.clipped.clipped_or_none(batch, 8).norms) == 5


def test_the_record_that_moves_takes_its_mask_along():
    """Masks of places, the same ones with and without the new record, would move the sum by up to 3 C."""
    torch.manual_seed(0)
    number, place = 12, 4
    x, masks = torch.randn(number + 1, 50), torch.randint(0, 2, (number + 1, 50)).float()
    x[number], masks[number] = -x[place], 1 - masks[place]

    def total(order, of_place):
        weight = torch.zeros(1, 50, requires_grad=True)
        losses = F.linear(10 * x[order] * masks[of_place], weight).squeeze(1)
        chooser = KernelChooser(ordered=True)
        made = clipped_grad_sum(losses, {"weight": weight}, max_grad_norm=1.0, chooser=chooser, ordered=True)
        return made.grads["weight"].double()

    order, places = list(range(number)), list(range(number))
    with_it = [*order[:place], number, *order[place + 1 :], place]
    taken_along = [*places[:place], number, *places[place + 1 :], place]
    before = total(order, places)
    assert (total(with_it, [*places, number]) - before).norm() > 2
    assert (total(with_it, taken_along) - before).norm() <= 1 + ORDERED_ERROR
