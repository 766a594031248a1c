"""Before anything is paid for: what an example adds is the same, bit by bit, in every place of a pass."""

from functools import reduce
from operator import add
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from trainers import plan_of, trainer_for

from fl_dp.engine.gradients.outer_products import Outer
from fl_dp.engine.steady_rows import digests
from fl_dp.errors import UnsteadyError
from fl_dp.form import Form
from fl_dp.models.build import build_model
from fl_dp.training import rehearsing, step
from fl_dp.training.rehearsing import rows_that_pass

ROWS = 24
NUMBERS, TOKENS = Form((20,), 3), Form((12,), 9, targets="tokens", vocabulary=9)


def trainer_of(model: nn.Module, form: Form = NUMBERS, **plan: str) -> Any:
    return trainer_for(model, form, plan_of(expected_batch_size=64, **plan))


class AddsUp(nn.Module):
    """Adds to each number of a row the sum of its row, and in `reversed_rows` adds that up from its end."""

    def reversed_rows(self, x: Tensor) -> Tensor:
        return torch.zeros(len(x), dtype=torch.bool)

    def forward(self, x: Tensor) -> Tensor:
        one_way, other_way = (reduce(add, columns) for columns in (x.unbind(1), x.unbind(1)[::-1]))
        return x + torch.where(self.reversed_rows(x), other_way, one_way)[:, None]


class InAnOrderByPlace(AddsUp):
    def reversed_rows(self, x: Tensor) -> Tensor:
        return torch.arange(len(x)) >= 16


class InAnOrderByNeighbours(AddsUp):
    def reversed_rows(self, x: Tensor) -> Tensor:
        return (x.detach().abs() > 1e10).any().expand(len(x))


def plain(kind=AddsUp):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(20, 8), kind(), nn.Linear(8, 3))


def test_a_model_that_adds_in_one_order_passes_and_is_left_as_it_was():
    trainer = trainer_of(plain())
    before, state = [p.detach().clone() for p in trainer._passes.model.parameters()], torch.get_rng_state()
    trainer.check_rows(ROWS)
    assert all(map(torch.equal, before, trainer._passes.model.parameters()))
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize("kind", [InAnOrderByPlace, InAnOrderByNeighbours])
def test_one_that_adds_rows_in_an_order_by_place_or_neighbours_is_refused(kind):
    """Its outputs are equal but for rounding, so that the check of the model itself lets it pass."""
    trainer = trainer_of(plain(kind))
    before = [p.detach().clone() for p in trainer._passes.model.parameters()]
    with pytest.raises(
        UnsteadyError, match=r'last bits on an example\'s place.*24 rows.*arithmetic = "proven"'
    ):
        trainer.check_rows(ROWS)
    assert all(map(torch.equal, before, trainer._passes.model.parameters()))


def test_a_kernel_whose_lengths_depend_on_the_place_is_refused_by_name(monkeypatch):
    kept = Outer.keep

    def by_place(self, kernel):
        found = kept(self, kernel)
        found.norm_squared[20:] *= 1 + 2**-23
        return found

    trainer = trainer_of(nn.Sequential(nn.Linear(20, 8), nn.Tanh(), nn.Linear(8, 3)))
    monkeypatch.setattr(Outer, "keep", by_place)
    with pytest.raises(UnsteadyError, match=r"^The gradient of 2\.weight \(kernel 'ghost'\) and of 1 more"):
        trainer.check_rows(ROWS)


def test_a_length_of_all_that_depends_on_the_place_is_refused(monkeypatch):
    sums = step.sum_of

    def by_place(*args, **kwargs):
        found = sums(*args, **kwargs)
        found.norms[20:] *= 1 + 2**-23
        return found

    monkeypatch.setattr(step, "sum_of", by_place)
    with pytest.raises(UnsteadyError, match="gradient of all parameters together depends"):
        trainer_of(plain()).check_rows(ROWS)


def test_masks_may_differ_by_place():
    trainer_of(nn.Sequential(nn.Linear(20, 8), nn.Tanh(), nn.Dropout(0.3), nn.Linear(8, 3))).check_rows(ROWS)


def test_where_every_record_has_its_own_pass_there_is_no_place():
    trainer_of(plain(InAnOrderByPlace), arithmetic="proven").check_rows(ROWS)


def test_what_was_checked_is_not_checked_again(monkeypatch):
    trainer = trainer_of(plain())
    trainer.check_rows(ROWS)
    monkeypatch.setattr(rehearsing, "check_steady", lambda *_: pytest.fail("checked twice"))
    trainer.check_rows(ROWS)


def test_rows_are_chosen_of_which_every_function_has_whole_vectors():
    """SiLU of the last numbers is computed by other code: 24 rows of 17 have such an end, 64 have none."""
    logits = torch.linspace(-2, 2, 3968)
    at_an_end = torch.cat([torch.sigmoid(few.contiguous()) for few in logits.split(31)])
    if torch.equal(at_an_end, torch.sigmoid(logits)):
        pytest.skip("this build has one sigmoid for all places")
    trainer = trainer_of(nn.Sequential(nn.Linear(20, 17), nn.SiLU(), nn.Linear(17, 3)))
    with pytest.raises(UnsteadyError):
        trainer.check_rows(ROWS)
    assert rows_that_pass(trainer.check_rows, ROWS, 128) == 64


def test_where_memory_runs_out_fewer_rows_are_checked_before_they_are_taken():
    """Without places from 16 on there is nothing that depends on one."""
    trainer = trainer_of(plain(InAnOrderByPlace))
    assert (trainer.fewer_rows(96), trainer.fewer_rows(24)) == (8, 8)  # not 48, 24; 8


def test_where_no_number_of_rows_is_steady_the_first_error_says_so():
    def never(rows):
        raise UnsteadyError(f"{rows} rows")

    with pytest.raises(UnsteadyError, match="24 rows"):
        rows_that_pass(never, ROWS, 128)


@pytest.mark.parametrize("rows", [8, 40])
@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("linear", Form((785,), 10)),
        ("mlp", Form((105,), 2)),
        ("norm-linear", Form((16, 8, 8), 10)),
        ("tanh-cnn", Form((1, 28, 28), 10)),
        ("lenet-gn", Form((1, 28, 28), 10)),
        ("cnn1d", Form((64, 3), 5)),
        ("transformer", TOKENS),
        ("scatter-cnn", Form((81, 7, 7), 10)),
    ],
)
def test_models_of_our_own_are_steady(name, form, rows):
    trainer_of(build_model(name, form, seed=0), form).check_rows(rows)


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.bfloat16, torch.complex64, torch.int64]
)
def test_digests_are_of_the_numbers_and_not_of_the_place(dtype):
    rows = torch.randint(-9, 9, (5, 4, 7)).to(dtype)
    order = torch.tensor([3, 1, 4, 0, 2])
    assert torch.equal(digests(rows)[order], digests(rows[order]))
    other = rows.clone()
    other[2, 3, 6] += 1
    assert (digests(rows) != digests(other)).tolist() == [False, False, True, False, False]


def test_zero_has_no_sign():
    assert torch.equal(digests(torch.zeros(3, 2)), digests(-torch.zeros(3, 2)))
