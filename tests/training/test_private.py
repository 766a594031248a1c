"""DP-SGD on one model, step by step, whatever the server chose and whatever a record holds."""

import pytest
import torch
from structured import Called
from torch import Tensor, nn
from trainers import plan_of, trainer_for
from without_rule import Slope

from fl_dp.data.tensor_data import TensorData
from fl_dp.engine.kernel_choice.chooser import KernelChooser
from fl_dp.engine.sum_error import ORDERED_ERROR, sum_error
from fl_dp.engine.tracing import mixing
from fl_dp.errors import ConfigError, NonFiniteError
from fl_dp.records import MOST_WEIGHT
from fl_dp.training import private, step


def trainer_of(model, data, key=bytes(32), **changes):
    return trainer_for(model, data, plan_of(**changes), key=key)


def linear():
    torch.manual_seed(3)
    return nn.Linear(5, 3)


@pytest.fixture
def no_noise(monkeypatch):
    monkeypatch.setattr(step, "add_gaussian_noise", lambda clipped, **_: clipped.grads)


@pytest.fixture
def no_watch(monkeypatch):
    """Batches are not searched for mixing, which calls the model once more."""
    monkeypatch.setattr(mixing.secrets, "randbelow", lambda n: 1)


def test_a_record_that_overflows_does_not_decide_what_the_others_contribute(data):
    """Without a rule one example's infinity would make all gradients NaN, and the sum zero."""
    model = nn.Sequential(nn.Linear(5, 4), Slope(4), nn.Linear(4, 3))
    x, y = data.batch(torch.arange(6))
    x[3] = 3e38
    with torch.no_grad():
        model[0].weight.fill_(2.0)  # 3e38 overflows here
    trainer = trainer_of(model, data)
    with pytest.raises(NonFiniteError):
        trainer.clipped.sum_of_pass((x, y), 8)  # all at once, it cannot be told whose the infinity is
    others = torch.tensor([0, 1, 2, 4, 5])
    found, clean = (trainer.clipped.clipped_or_none(pair, 8) for pair in ((x, y), (x[others], y[others])))
    moved = torch.cat([(found.grads[n] - clean.grads[n]).flatten() for n in clean.grads]).norm()
    assert moved <= trainer.plan.max_grad_norm * (1 + 1e-5)
    assert all(grad.abs().sum() > 0 for grad in clean.grads.values())


class Product(nn.Module):
    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(5, 3, dtype=dtype))

    def forward(self, x: Tensor) -> Tensor:
        product = x.to(self.weight.dtype) @ self.weight
        return product.abs() if product.is_complex() else product.float()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.complex64])
def test_weights_stay_finite_and_bounded_whatever_the_learning_rate(data, dtype):
    model = Product(dtype)
    trainer = trainer_of(model, data, learning_rate=1e300, momentum=0.9)
    for _ in range(3):
        trainer.step(data, 0.1, 8)
    weight = torch.view_as_real(model.weight) if dtype.is_complex else model.weight
    assert bool(weight.isfinite().all())
    assert float(weight.detach().abs().max()) == pytest.approx(MOST_WEIGHT, rel=0.01)


def test_each_real_batch_may_be_searched_for_mixing(data, monkeypatch):
    trainer, seen = trainer_of(linear(), data), []
    monkeypatch.setattr(trainer._watch, "look", lambda inputs, labels: seen.append(len(labels)))
    trainer._clipped_sum(data, torch.arange(10), 8)
    assert seen == [8, 2]


def test_the_same_draws_give_the_same_step_however_it_is_cut(data, no_noise):
    ends = []
    for physical_batch_size in (3, 1000):
        model = linear()
        trainer_of(model, data).step(data, 0.3, physical_batch_size)
        ends.append(model.weight.detach())
    torch.testing.assert_close(*ends, rtol=0, atol=1e-6)


def picky(layer, x):
    """A model of the user's that cannot take some records, and says so."""
    if bool((x > 100).any()):
        raise ValueError("a value above 100")
    return layer(x)


@pytest.mark.parametrize(
    ("rows", "arithmetic"), [(1, "steady-rows"), (4, "steady-rows"), (7, "steady-rows"), (64, "proven")]
)
def test_a_record_that_makes_the_model_raise_contributes_nothing_and_the_others_all(
    data, rows, arithmetic, caplog
):
    x = data.x.clone()
    x[3] = 1000.0
    trainer = trainer_of(Called(linear(), picky), data, arithmetic=arithmetic)
    found = trainer._clipped_sum(TensorData(x, data.y, data.classes), torch.arange(7), rows)
    expected = trainer._clipped_sum(data, torch.tensor([0, 1, 2, 4, 5, 6]), rows)
    for name, grad in expected.grads.items():
        within = 0 if arithmetic == "proven" else 1e-6
        torch.testing.assert_close(found.grads[name].to(grad.dtype), grad, rtol=0, atol=within)
    assert "an example contributes nothing: a value above 100" in caplog.text


@pytest.mark.parametrize(("there", "sizes", "fits"), [(4, [8, 4, 4], 4), (0, [8, 4, 1], 1)])
def test_memory_that_runs_out_is_no_records_fault(data, there, sizes, fits, monkeypatch):
    """Else all records would count as nothing, instead of being computed in smaller passes."""
    trainer, asked = trainer_of(linear(), data), []
    whole = trainer.clipped.sum_of_pass

    def short_of_memory(batch, rows, passes):
        asked.append(rows)
        if rows > there:
            raise RuntimeError("DefaultCPUAllocator: not enough memory") if there else torch.OutOfMemoryError
        return whole(batch, rows, passes)

    monkeypatch.setattr(trainer.clipped, "sum_of_pass", short_of_memory)
    monkeypatch.setattr(trainer, "check_rows", lambda rows: None)  # of which test_steady_rows.py is
    if there:
        assert len(trainer._clipped_sum(data, torch.arange(8), 8).norms) == 8
    else:
        with pytest.raises(torch.OutOfMemoryError):
            trainer._clipped_sum(data, torch.arange(8), 8)
    assert (asked, trainer.fits) == (sizes, fits)


def test_every_pass_has_the_same_shape_whatever_is_drawn(data, no_watch):
    shapes, model = set(), linear()
    trainer = trainer_of(model, data)
    trainer.declare_shapes()
    model.register_forward_pre_hook(lambda module, args: shapes.add(tuple(args[0].shape)))
    for _ in range(20):
        trainer.step(data, 0.2, 8)
    assert shapes == {(8, 5)}


def test_the_models_own_random_numbers_follow_from_the_key_and_are_new_for_every_step_and_slot(
    data, no_watch
):
    """Masks of a known seed, or shared by slots or steps, are known to a server, or cancel out."""

    def masks(key):
        model, found = nn.Sequential(nn.Linear(5, 64), nn.Dropout(), nn.Linear(64, 3)), []
        trainer = trainer_of(model, data, key)
        trainer.declare_shapes()
        model[1].register_forward_hook(lambda module, args, output: found.append(output.detach() != 0))
        before = torch.get_rng_state()
        for _ in range(3):
            trainer.step(data, 1.0, 48)  # three passes
        assert torch.equal(torch.get_rng_state(), before)
        return torch.cat(found)

    first, again, other = masks(b"k" * 32), masks(b"k" * 32), masks(b"l" * 32)
    assert torch.equal(first, again)
    assert len(torch.cat([first, other]).unique(dim=0)) == 2 * 3 * 3 * 48


@pytest.mark.parametrize("ordered", [False, True])
def test_sums_are_charged_as_in_a_secret_order_if_the_chooser_sees_one_shape(data, ordered):
    trainer = trainer_for(linear(), data, plan_of(), chooser=KernelChooser(ordered=ordered))
    found = trainer.clipped.sum_of_pass(data.batch(torch.arange(6)), 8)
    assert found.ordered is ordered
    assert found.error == (ORDERED_ERROR if ordered else sum_error(trainer.rule.most))


def test_noise_that_no_grid_can_hold_is_refused_before_anything_is_paid_for(data):
    with pytest.raises(ConfigError, match="too large for its grid"):
        trainer_of(linear(), data, noise_multiplier=1e14)


def test_with_proven_arithmetic_every_record_has_a_pass_of_its_own(data, no_noise, monkeypatch):
    monkeypatch.setattr(private, "SEARCHED", 1)
    ends, sizes = [], []
    for arithmetic in ("steady-rows", "proven"):
        model, passes = linear(), []
        trainer = trainer_of(model, data, arithmetic=arithmetic)
        model.register_forward_pre_hook(lambda _, inputs, passes=passes: passes.append(len(inputs[0])))
        trainer.step(data, 0.3, 64)
        ends.append(model.weight.detach())
        sizes.append(set(passes))
    torch.testing.assert_close(*ends, rtol=0, atol=1e-6)
    assert sizes[1] == {1}
    assert max(sizes[0]) > 1
    assert trainer.choose_rows(64) == trainer.most_at_once == 1
    passes.clear()
    trainer.rehearse(64)
    trainer.fit_kernels(1, 1)  # there are none to choose
    assert passes == [1, 1]


def test_with_proven_arithmetic_memory_is_a_records_own_fault(data, monkeypatch, caplog):
    """A tensor as large as a record says: all others count, and an answer comes."""
    trainer = trainer_of(linear(), data, arithmetic="proven")
    honest = trainer._passes.losses_of
    expected = trainer._clipped_sum(data, torch.tensor([0, 1, 3, 4]), 64)

    def hungry(inputs, labels):
        if torch.equal(inputs[0], data.x[2]):
            torch.empty(2**60)
        return honest(inputs, labels)

    monkeypatch.setattr(trainer._passes, "losses_of", hungry)
    found = trainer._clipped_sum(data, torch.arange(5), 64)
    assert all(torch.equal(found.grads[name], grad) for name, grad in expected.grads.items())
    assert "contributes nothing" in caplog.text


@pytest.mark.parametrize("arithmetic", ["steady-rows", "proven"])
def test_gradients_are_clipped_as_the_plan_says(data, arithmetic):
    """By one backward pass per example."""
    model, bound = linear(), 0.7
    trainer = trainer_of(model, data, clipping="automatic", max_grad_norm=bound, arithmetic=arithmetic)
    expected = torch.zeros(3, 5)
    for i in range(6):
        x, y = data.batch(torch.tensor([i]))
        loss = nn.functional.cross_entropy(model(x), y)
        grads = torch.autograd.grad(loss, list(model.parameters()))
        norm = torch.cat([grad.flatten() for grad in grads]).norm()
        expected += grads[0] * bound / (norm + 0.01)
    found = trainer._clipped_sum(data, torch.arange(6), 8)
    torch.testing.assert_close(found.grads["weight"].float(), expected, rtol=1e-4, atol=1e-6)
    assert found.sensitivity == bound
