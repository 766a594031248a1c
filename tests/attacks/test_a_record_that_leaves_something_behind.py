"""A record that raises midway counts for no other: not by what it leaves, not by an empty draw's pass."""

import pytest
import torch
from moving import flat
from torch import nn
from torch.nn import functional as F
from trainers import CPU, plan_of, trainer_for

from fl_dp.data.tensor_data import TensorData
from fl_dp.engine.tracing import mixing
from fl_dp.errors import ProbeError
from fl_dp.training.objective import Objective

MARK = 7.0


class NoWordsError(RuntimeError):
    def __str__(self):
        raise KeyError("patient 17")


def no_gradients_left(model, marked):
    torch.set_grad_enabled(False)
    if marked:
        raise ValueError
    torch.set_grad_enabled(True)


def frozen_left(model, marked):
    if marked:
        model.requires_grad_(False)
        raise ValueError


def evaluating_left(model, marked):
    if marked:
        model.eval()
        raise ValueError


def the_end(model, marked):
    if marked:
        raise SystemExit


def no_words(model, marked):
    if marked:
        raise NoWordsError


class PanicError(BaseException):
    """As of a library in Rust: no Exception, and no wish to end anything."""


def a_panic(model, marked):
    if marked:
        raise PanicError


def trainer(losses, arithmetic="proven", count=6):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Dropout(0.5), nn.Linear(6, 2))
    x = torch.randn(count, 6)
    x[0, 0] = MARK
    data = TensorData(x, torch.arange(count) % 2, ("a", "b"))
    plan = plan_of(expected_batch_size=4, arithmetic=arithmetic)
    made = trainer_for(model, Objective(losses, data.form), plan, key=b"x" * 32)
    made.check_losses()
    made.rehearse(8)
    return made, data


def summed(made, data, draw):
    with made.masks.in_torch(CPU):
        return flat(made._clipped_sum(data, torch.tensor(draw, dtype=torch.int64), 8).grads)


@pytest.fixture(autouse=True)
def gradients_again():
    yield
    torch.set_grad_enabled(True)


@pytest.mark.parametrize("arithmetic", ["steady-rows", "proven"])
@pytest.mark.parametrize(
    "left",
    [no_gradients_left, frozen_left, evaluating_left, the_end, no_words, a_panic],
    ids=lambda f: f.__name__,
)
def test_one_that_raised_leaves_nothing_behind(left, arithmetic, monkeypatch):
    """It drew no mask. So the others have the masks that they have without it."""

    def losses(model, batch):
        inputs, targets = batch
        hidden = model[1](model[0](inputs))
        left(model, bool((inputs[:, 0] == MARK).any()))
        return 10 * F.cross_entropy(model[3](model[2](hidden)), targets, reduction="none")

    made, data = trainer(losses, arithmetic)
    without = summed(made, data, [1, 2, 3])
    assert float(without.norm()) > 0.5
    if arithmetic == "proven":
        assert torch.equal(summed(made, data, [0, 1, 2, 3]), without)
        return
    # One pass of all, or each alone, has other masks. A real batch in 50 is searched for records that move
    # others' losses, whatever a record does there.
    for chance in (1, 0):
        monkeypatch.setattr(mixing.secrets, "randbelow", lambda n, chance=chance: chance)
        assert float(summed(made, data, [0, 1, 2, 3]).norm()) > 0.5
        assert made._passes.model.training
        assert all(parameter.requires_grad for parameter in made._passes.parameters.values())


def test_whoever_wants_to_end_the_process_can(monkeypatch):
    def losses(model, batch):
        if bool((batch[0][:, 0] == MARK).any()):
            raise KeyboardInterrupt
        return F.cross_entropy(model(batch[0]), batch[1], reduction="none")

    with pytest.raises(KeyboardInterrupt):
        summed(*trainer(losses, "steady-rows"), [0, 1])


def test_an_empty_draw_has_no_pass():
    """A loss of an empty batch would count where no record is, and not where one is."""

    def losses(model, batch):
        inputs, targets = batch
        assert len(inputs)
        return F.cross_entropy(model(inputs), targets, reduction="none")

    made, data = trainer(losses)
    assert not summed(made, data, []).any()
    assert len(made.clipped.one_by_one([]).norms) == 0


def test_a_pass_that_works_only_once_is_seen_before_the_payment():
    """Else whichever record is first in a draw is the only one that counts."""
    kept = {}

    def losses(model, batch):
        inputs, targets = batch
        if "weight" not in kept:
            kept["weight"] = model[3].weight * 1.0
        hidden = model[2](model[1](model[0](inputs)))
        return F.cross_entropy(F.linear(hidden, kept["weight"]), targets, reduction="none")

    with pytest.raises(RuntimeError, match="second time"):
        trainer(losses)


@pytest.mark.parametrize("own", [True, False])
def test_losses_may_not_draw_under_a_known_seed(own):
    def losses(model, batch):
        inputs, targets = batch
        generator = torch.Generator().manual_seed(0) if own else torch.manual_seed(0)
        masks = torch.rand(inputs.shape, generator=generator) < 0.5
        return F.cross_entropy(model(inputs * masks), targets, reduction="none")

    with pytest.raises(ProbeError, match="generator of its own"):
        trainer(losses)
