"""Any optimizer, scheduler and parameter group gets the gradient it would get by hand."""

import gc
import weakref

import pytest
import torch
from attached import attached, losses_of, small_batch, small_engine, small_model
from torch.optim.optimizer import _global_optimizer_pre_hooks, register_optimizer_step_pre_hook

from fl_dp import add_gaussian_noise, clipped_grad_sum
from fl_dp.errors import ConfigError


@pytest.mark.parametrize(
    "optimizer_class", [torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop, torch.optim.Rprop]
)
def test_any_optimizer_gets_the_gradient_it_would_get_by_hand(optimizer_class):
    x, y = small_batch()
    seeded, generator = (torch.Generator().manual_seed(4) for _ in range(2))
    model, optimizer, _ = attached(optimizer_class=optimizer_class, generator=seeded)
    twin = small_model()
    by_hand = optimizer_class(twin.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.virtual_step(loss=losses_of(model, x, y))
        optimizer.zero_grad()  # keeps what virtual steps gathered
        optimizer.step(loss=None)
        clipped = clipped_grad_sum(losses_of(twin, x, y), dict(twin.named_parameters()), max_grad_norm=0.1)
        noisy = add_gaussian_noise(clipped, noise_multiplier=1.0, generator=generator)
        for name, parameter in twin.named_parameters():
            parameter.grad = noisy[name] / 10
        by_hand.step()
    for a, b in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("attach_first", [True, False])
def test_schedulers_and_parameter_groups_work_made_before_or_after(attach_first):
    """PyTorch warns when a scheduler and a step do not know each other, and warnings are errors here."""
    x, y = small_batch()
    model = small_model()
    groups = [{"params": model[0].parameters(), "lr": 0.0}, {"params": model[2].parameters(), "lr": 1.0}]
    optimizer = torch.optim.SGD(groups)
    engine = small_engine(model, noise_multiplier=1.0)
    if attach_first:
        engine.attach(optimizer)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.1)
    if not attach_first:
        engine.attach(optimizer)
    start = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer.step(loss=losses_of(model, x, y))
    scheduler.step()
    engine.detach()
    assert [group["lr"] for group in optimizer.param_groups] == [0.0, 0.1]
    assert torch.equal(model[0].weight, start["0.weight"])
    assert not torch.equal(model[2].weight, start["2.weight"])
    scheduler.step()


def test_detach_gives_the_optimizer_its_step_back():
    model, (x, y) = small_model(), small_batch()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    engine = small_engine(model, noise_multiplier=1.0)
    engine.attach(optimizer)
    engine.detach()
    names = ("virtual_step", "privacy_engine", "get_privacy_spent", "get_training_stats")
    assert not any(hasattr(optimizer, name) for name in names)
    losses_of(model, x, y).mean().backward()
    optimizer.step()
    assert engine.steps == 0
    assert engine._check.watch.inputs is None  # the model is not watched any more


def test_detach_drops_what_virtual_steps_gathered_and_may_be_called_twice():
    x, y = small_batch()
    model, optimizer, engine = attached()
    optimizer.virtual_step(loss=losses_of(model, x, y))
    engine.detach()
    engine.detach()
    engine.attach(optimizer)
    optimizer.step(loss=None)
    assert engine.get_training_stats()["signal"] == 0.0


@pytest.mark.parametrize(
    ("args", "options", "words"),
    [
        ((), {}, "needs loss="),
        ((lambda: None,), {"loss": None}, "closure"),
        ((), {"loss": None, "closure": lambda: None}, "closure"),
        ((), {"loss": None, "scale": 2.0}, "scale"),
    ],
)
def test_a_step_takes_losses_and_nothing_else(args, options, words):
    """Nor does a gradient scaler, which calls it with nothing, take one."""
    model, optimizer, engine = attached()
    model[0].weight.grad = torch.ones_like(model[0].weight)
    with pytest.raises(TypeError, match=words):
        optimizer.step(*args, **options)
    assert engine.steps == 0
    assert torch.equal(model[0].weight, small_model()[0].weight)


@pytest.mark.parametrize("first", ["backward", "virtual_step"])
def test_losses_whose_graph_was_used_are_refused_with_what_to_leave_out(first):
    """PyTorch's own words ask for retain_graph=True, which would count the examples twice."""
    x, y = small_batch()
    model, optimizer, engine = attached()
    losses = losses_of(model, x, y)
    if first == "backward":
        losses.mean().backward()
    else:
        optimizer.virtual_step(loss=losses)
    with pytest.raises(ConfigError, match=r"used up: by a backward\(\).*Leave that out"):
        optimizer.step(loss=losses)
    assert engine.steps == 0


def test_optimizers_that_need_a_closure_and_second_engines_are_refused():
    model, optimizer, engine = attached()
    with pytest.raises(ConfigError, match="LBFGS"):
        small_engine(model, noise_multiplier=1.0).attach(torch.optim.LBFGS(model.parameters()))
    with pytest.raises(ConfigError, match="Another engine"):
        small_engine(model, noise_multiplier=1.0).attach(optimizer)
    with pytest.raises(ConfigError, match="already attached to an optimizer; give that one all"):
        engine.attach(torch.optim.SGD(model.parameters()))


def test_a_second_optimizer_over_the_same_parameters_is_refused_before_it_moves_them():
    x, y = small_batch()
    model, optimizer, engine = attached()
    second, closure = torch.optim.Adam(model[2].parameters()), lambda: losses_of(model, x, y).mean()
    for step in (second.step, torch.optim.LBFGS(model.parameters()).step):
        with pytest.raises(ConfigError, match=r"(2|0)\.weight has a private optimizer, but .*, (Adam|LBFGS)"):
            step(closure)
    assert all(map(torch.equal, model.parameters(), small_model().parameters()))
    torch.optim.SGD(small_model().parameters()).step()  # of another model
    optimizer.step(loss=losses_of(model, x, y))  # is not in the way of the next
    engine.detach()
    second.step()


def test_a_wrapper_s_inner_optimizer_steps_within_its_own_step_alone():
    class Wrapper(torch.optim.Optimizer):
        def __init__(self, inner):
            super().__init__(inner.param_groups, {})
            self.inner = inner

        def step(self):
            self.inner.step()

    x, y = small_batch()
    model = small_model()
    optimizer = Wrapper(torch.optim.SGD(model.parameters(), lr=1.0))
    small_engine(model, noise_multiplier=1.0).attach(optimizer)
    optimizer.step(loss=losses_of(model, x, y))
    assert not torch.equal(model[0].weight, small_model()[0].weight)
    with pytest.raises(ConfigError, match="has a private optimizer"):
        optimizer.inner.step()


def test_after_a_step_that_failed_others_are_refused_as_before():
    class Failing(torch.optim.SGD):
        def step(self):
            raise KeyboardInterrupt

    x, y = small_batch()
    model, optimizer, _ = attached(optimizer_class=Failing)
    with pytest.raises(KeyboardInterrupt):
        optimizer.step(loss=losses_of(model, x, y))
    with pytest.raises(ConfigError, match="has a private optimizer"):
        torch.optim.SGD(model.parameters()).step()


def test_an_engine_that_becomes_garbage_within_a_step_forbids_nothing_and_keeps_no_model():
    """PyTorch's table of hooks must not change while a step goes through it."""

    def collect(*_):
        gc.collect()

    model, optimizer, engine = attached()
    kept, count = weakref.ref(engine), len(_global_optimizer_pre_hooks)
    collecting = register_optimizer_step_pre_hook(collect)
    later = register_optimizer_step_pre_hook(lambda *_: None)
    del optimizer, engine
    torch.optim.SGD(small_model().parameters()).step()
    torch.optim.SGD(model.parameters()).step()
    collecting.remove()
    later.remove()
    assert kept() is None
    other = attached()
    assert len(_global_optimizer_pre_hooks) == count
    del other


def test_an_optimizer_of_a_part_is_refused_by_name_until_the_rest_is_added():
    x, y = small_batch()
    model = small_model()
    optimizer = torch.optim.SGD(model[2].parameters(), lr=1.0)
    small_engine(model, noise_multiplier=1.0).attach(optimizer)
    start = model[0].weight.detach().clone()
    with pytest.raises(ConfigError, match=r"does not hold 0\.weight, .*add it to the optimizer"):
        optimizer.step(loss=losses_of(model, x, y))
    assert optimizer.privacy_engine.steps == 0
    optimizer.add_param_group({"params": model[0].parameters(), "lr": 0.5})
    optimizer.step(loss=losses_of(model, x, y))
    assert not torch.equal(model[0].weight, start)
