"""The loop as trainers write it: batches fetched ahead, closures, accelerate, autocast, saved states."""

from collections import OrderedDict

import pytest
import torch
from accelerate import Accelerator
from attached import losses_of, small_batch, small_model
from privacy_engine.turns import HALF, ONES, RECORDS, ByHand, ahead, setting, turn
from torch import nn
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import TensorDataset

from fl_dp.errors import ConfigError


@pytest.mark.parametrize("by", [1, 2, 99])
def test_a_loop_may_fetch_batches_ahead_of_its_steps(by):
    model, optimizer, engine, loader = setting(noise_multiplier=0.0)
    by_hand = ByHand(model)
    for epoch in range(1, 4):
        for batch in ahead(loader, by):
            turn(engine, optimizer, batch)
            by_hand.step(*batch)
        assert engine.steps == epoch * len(loader)
    by_hand.twin.assert_same(model)
    assert engine.get_privacy_spent().sampling == "seen"


def test_a_loop_that_ends_early_is_handed_the_draws_without_a_step_again():
    _, optimizer, engine, loader = setting()
    batches = ahead(loader, 2)
    turn(engine, optimizer, next(batches))
    left = next(batches)
    engine.loss(*left).backward()  # and no step
    again = list(loader)
    assert len(again) == len(loader) - 1
    assert all(torch.equal(*pair) for pair in zip(again[0], left, strict=True))
    for batch in again:
        turn(engine, optimizer, batch)
    assert engine.steps == len(loader) == len(list(loader))


def test_a_loss_of_a_loop_that_was_left_is_not_meant_in_the_next():
    _, optimizer, engine, loader = setting(**HALF)
    loss = engine.loss(*next(iter(loader)))
    batch = next(iter(loader))
    with pytest.raises(ConfigError, match="in a new loop"):
        loss.backward()
    turn(engine, optimizer, batch)


def test_a_pass_that_raised_is_tried_again_on_the_same_draw():
    fails = [True]

    def flaky(x, y):
        if fails.pop() if fails else False:
            raise MemoryError
        return losses_of(model, x, y)

    model, optimizer, engine, loader = setting(losses_of=flaky, **HALF)
    batch = next(iter(loader))
    with pytest.raises(MemoryError):
        engine.loss(*batch)
    turn(engine, optimizer, batch)
    assert engine.steps == 1


def test_a_closure_is_run_once_before_the_step():
    model, optimizer, engine, loader = setting(noise_multiplier=0.0, **HALF)
    by_hand, calls = ByHand(model, **HALF), []
    for form, batch in zip(("position", "keyword"), loader, strict=True):

        def closure(batch=batch):
            optimizer.zero_grad()
            loss = engine.loss(*batch)
            loss.backward()
            calls.append(len(calls))
            return loss

        with torch.no_grad():
            optimizer.step(closure) if form == "position" else optimizer.step(closure=closure)
        by_hand.step(*batch)
    by_hand.twin.assert_same(model)
    assert calls == [0, 1]


def test_none_is_no_closure_and_other_arguments_are_refused():
    _, optimizer, engine, loader = setting(**HALF)
    for form, batch in enumerate(loader):
        engine.loss(*batch).backward()
        for wrong in ({"grad_scaler": 1}, {"loss": None}, {"loss": losses_of(engine.module, *batch)}):
            with pytest.raises((TypeError, ConfigError)):
                optimizer.step(**wrong)
        optimizer.step(None) if form else optimizer.step(closure=None)
    with pytest.raises(TypeError, match="nothing but a closure"):
        optimizer.step(None, 1)
    with pytest.raises(ConfigError, match="virtual_step give attach a sampler="):
        optimizer.virtual_step(loss=losses_of(engine.module, *batch))
    assert engine.steps == 2


def test_accelerate_and_a_schedule_train_what_the_definition_says():
    model, optimizer, engine, loader = setting(noise_multiplier=0.0)
    by_hand, accelerator = ByHand(model), Accelerator(cpu=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    schedules = [StepLR(optimizer, 3, gamma=0.5), StepLR(by_hand.optimizer, 3, gamma=0.5)]
    schedules[0] = accelerator.prepare(schedules[0])
    for _ in range(2):
        for batch in loader:
            with accelerator.accumulate(model):
                loss = engine.loss(*batch)
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(model.parameters(), 1.0)  # finds nothing to clip
                optimizer.step()
                optimizer.zero_grad()
            by_hand.step(*batch)
            for schedule in schedules:
                schedule.step()
    by_hand.twin.assert_same(model)
    assert engine.steps == 2 * len(loader)


def test_passes_run_under_the_caller_s_autocast_and_their_sums_do_not():
    seen = []

    def losses(x, y):
        out = engine.module(x)
        seen.append(out.dtype)
        return nn.functional.cross_entropy(out.float(), y, reduction="none")

    records = TensorDataset(*small_batch(RECORDS))
    _, optimizer, engine, loader = setting(small_model(), dataset=records, losses_of=losses, **ONES)
    clip, enabled = engine._turns._clip, []
    engine._turns._clip = lambda losses: enabled.append(torch.is_autocast_enabled("cpu")) or clip(losses)
    for batch in loader:
        with torch.autocast("cpu", torch.bfloat16):
            loss = engine.loss(*batch)
        loss.backward()
        optimizer.step()
    assert (seen[-1], set(enabled)) == (torch.bfloat16, {False})


def test_batches_may_be_dicts_in_any_nesting():
    class Records(torch.utils.data.Dataset):
        def __len__(self):
            return RECORDS

        def __getitem__(self, i):
            x, y = small_batch(RECORDS)
            return {"in": {"x": x[i].double()}, "y": y[i], "name": f"record {i}"}

    model, optimizer, engine, loader = setting(
        physical=2,
        dataset=Records(),
        noise_multiplier=0.0,
        losses_of=lambda batch: losses_of(model, batch["in"]["x"], batch["y"]),
    )
    by_hand = ByHand(model)
    for _ in range(4):
        for batch in loader:
            turn(engine, optimizer, (OrderedDict(batch),))
            by_hand.step(batch["in"]["x"], batch["y"])
    by_hand.twin.assert_same(model)
    assert engine.steps == 32


def test_a_state_between_turns_is_continued_also_with_batches_fetched_ahead():
    _, optimizer, engine, loader = setting()
    batches = ahead(loader, 2)
    for _ in range(3):
        turn(engine, optimizer, next(batches))
    states = loader.state_dict(), engine.state_dict()
    _, optimizer, engine, loader = setting()
    left = next(iter(loader))
    engine.load_state_dict(states[1])
    loader.load_state_dict(states[0])
    with pytest.raises(ConfigError, match="No draw waits"):
        engine.loss(*left)
    for batch in loader:
        turn(engine, optimizer, batch)
    assert engine.steps == len(loader)


def test_masks_are_secret_and_no_draw_s_size_moves_torch_s_random_state():
    """Trainers seed it by a public number, and save it."""
    model, (x, y), drawn = nn.Sequential(nn.Linear(6, 3), nn.Dropout(0.5)), small_batch(RECORDS), []

    class Augmented(TensorDataset):
        def __getitem__(self, index):
            drawn.append(torch.rand(9))
            return super().__getitem__(index)

    def losses(x, y):
        drawn.append(model[1](torch.ones(64)))
        return losses_of(model, x, y)

    options = {"dataset": Augmented(x, y), "loader_size": 2, "losses_of": losses, "check_every": 10**9}
    (_, optimizer, engine, loader), seen = setting(model, **options), []
    seeded = torch.manual_seed(7).get_state()
    for _ in range(2):
        torch.manual_seed(7)
        for batch in loader:
            turn(engine, optimizer, batch)
        assert torch.equal(torch.get_rng_state(), seeded)
        seen.append({tuple(numbers.tolist()) for numbers in drawn})
        drawn.clear()
    assert seen[0]
    assert seen[1]
    assert not seen[0] & seen[1]


def test_the_optimizer_s_state_has_the_count_of_steps(tmp_path):
    """Trainers save it; another process that goes on from it counts the steps before."""
    _, optimizer, engine, loader = setting()
    for batch in loader:
        turn(engine, optimizer, batch)
    torch.save(optimizer.state_dict(), tmp_path / "optimizer.pt")
    state = torch.load(tmp_path / "optimizer.pt", weights_only=True)
    _, optimizer, engine, _ = setting()
    optimizer.load_state_dict(state)
    assert engine.steps == 8
    assert "no step was taken after the loaded state was saved" in str(engine.get_privacy_spent())
    optimizer.load_state_dict(state)
    assert engine.steps == 8
    _, optimizer, engine, _ = setting(noise_multiplier=2.0)
    with pytest.raises(ConfigError, match="noise_multiplier"):
        optimizer.load_state_dict(state)
    engine.detach()
    optimizer.load_state_dict(state)
    assert optimizer.state_dict().keys() == {"state", "param_groups"}


def test_an_optimizer_s_own_state_that_was_saved_before_any_step_says_nothing():
    """accelerate loads what it has just saved."""
    _, optimizer, engine, _ = setting(generator=torch.Generator())
    optimizer.load_state_dict(optimizer.state_dict())
    assert str(engine.get_privacy_spent(steps=8)).count("loaded state") == 0


def test_a_state_of_momentum_without_a_count_is_said():
    other = torch.optim.SGD(small_model().double().parameters(), lr=0.1, momentum=0.9)
    for parameter in other.param_groups[0]["params"]:
        parameter.grad = torch.ones_like(parameter)
    other.step()
    _, optimizer, engine, loader = setting()
    optimizer.load_state_dict(other.state_dict())
    turn(engine, optimizer, next(iter(loader)))
    assert any(one.name == "optimizer state" for one in engine.get_privacy_spent().assumed)
