"""engine.loss(*batch), backward(), step(): equal to the definition, and nothing raw is left."""

import warnings
from collections import OrderedDict
from contextlib import suppress

import pytest
import torch
from accelerate import Accelerator
from attached import losses_of, small_batch, small_engine, small_model
from torch import nn
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset
from twin import Twin

from fl_dp.errors import ConfigError, ModelError, ProbeError

RECORDS, BATCH = 24, 3  # an empty draw every 25 steps
ONES = {"batch_size": RECORDS, "sample_size": RECORDS}  # every draw is all records


def setting(model=None, *, physical=None, lr=0.5, **options):
    """Model in float64, its optimizer, its engine and the loader of draws."""
    model, (x, y) = model or small_model().double(), small_batch(RECORDS)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    usual = {"batch_size": BATCH, "sample_size": RECORDS, "noise_multiplier": 1.0, "max_grad_norm": 0.3}
    made = {"losses_of": lambda x, y: losses_of(model, x, y), **usual, **options}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="noise_multiplier=0")
        engine = small_engine(model, **made)
    loader = DataLoader(TensorDataset(x.double(), y), batch_size=BATCH, shuffle=True)
    return model, optimizer, engine, engine.attach(optimizer, loader=loader, physical_batch_size=physical)


def turn(engine, optimizer, batch):
    engine.loss(*batch).backward()
    optimizer.step()
    optimizer.zero_grad()


def first_batch(loader):
    """Of a draw with records."""
    return next(batch for batch in loader if len(batch[0]))


def grads(model):
    return [parameter.grad for parameter in model.parameters()]


@pytest.mark.parametrize("physical", [1, 2, 5, RECORDS])
@pytest.mark.parametrize("noise", [0.0, 1.1])
def test_each_step_is_one_backward_per_example_however_a_draw_is_cut(physical, noise):
    model, optimizer, engine, loader = setting(
        physical=physical, noise_multiplier=noise, generator=torch.Generator().manual_seed(4)
    )
    twin, sizes = Twin(model), []
    by_hand = torch.optim.SGD(twin.model.parameters(), lr=0.5)
    while 0 not in sizes or len(sizes) < 24:
        for x, y in loader:
            turn(engine, optimizer, (x, y))
            twin.set_grads(losses_of, [(x, y)], batch_size=BATCH, noise_multiplier=noise, max_grad_norm=0.3)
            by_hand.step()
            sizes.append(len(x))
    twin.assert_same(model)
    assert (len(sizes), len(sizes) % len(loader)) == (engine.steps, 0)


def test_passes_have_at_most_the_physical_size_and_none_is_called_for_an_empty_draw():
    seen = []
    model, optimizer, engine, loader = setting(
        physical=2, losses_of=lambda x, y: seen.append(len(x)) or losses_of(model, x, y), check_every=10**9
    )
    for batch in loader:
        turn(engine, optimizer, batch)
    seen.clear()
    sizes = []
    while 0 not in sizes:
        for batch in loader:
            before = len(seen)
            turn(engine, optimizer, batch)
            assert len(seen) - before == -(-len(batch[0]) // 2)
            sizes.append(len(batch[0]))
    assert (max(seen), sum(seen)) == (2, sum(sizes))


@pytest.mark.parametrize(("own", "passes"), [(8, 3), (1, 1), (RECORDS, 1)])
def test_the_usual_passes_are_of_the_loader_s_batch_size_or_the_engine_s(own, passes):
    model, optimizer, (x, y), seen = small_model(), None, small_batch(RECORDS), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    engine = small_engine(
        model,
        **ONES,
        noise_multiplier=1.0,
        check_every=10**9,
        losses_of=lambda x, y: seen.append(len(x)) or losses_of(model, x, y),
    )
    loader = engine.attach(optimizer, loader=DataLoader(TensorDataset(x, y), batch_size=own))
    for _ in range(2):
        seen.clear()
        turn(engine, optimizer, next(iter(loader)))
    assert len(seen) == passes


def test_no_weight_ever_has_a_gradient_without_noise():
    model, optimizer, engine, loader = setting()
    for batch in loader:
        loss = engine.loss(*batch)
        assert (loss.dim(), loss.requires_grad, grads(model)) == (0, True, [None] * 4)
        loss.backward()
        assert grads(model) == [None] * 4
        optimizer.step()
        assert all(grad.any() for grad in grads(model))
        optimizer.zero_grad()


@pytest.mark.parametrize("shown", [False, True])
def test_the_loss_is_no_number_unless_it_was_asked_for_and_epsilon_says_so(shown):
    model, optimizer, engine, loader = setting(show_loss=shown, physical=2)
    for batch in loader:
        expected = losses_of(model, *batch).mean() if shown and len(batch[0]) else torch.tensor(0.0)
        loss = engine.loss(*batch)
        if shown:
            torch.testing.assert_close(loss.double(), expected.double())
        else:
            assert loss.isnan()
        loss.backward()
        optimizer.step()
    assert ("reads the losses of 8 steps, which are raw data" in str(engine.get_privacy_spent())) is shown


SCALED = {
    "divided": lambda loss, model: loss / 4,
    "negative": lambda loss, model: -loss,
    "a scaler's": lambda loss, model: torch.amp.GradScaler("cpu", init_scale=2.0).scale(loss),
    "twice": lambda loss, model: loss + loss,
}


@pytest.mark.parametrize("how", SCALED)
def test_a_scaled_loss_is_refused_and_the_loss_itself_still_taken(how):
    model, optimizer, engine, loader = setting()
    loss = engine.loss(*first_of(engine, optimizer, loader))
    steps = engine.steps
    with pytest.raises(ConfigError, match=r"backward\(\) of a scaled loss.*GradScaler"):
        SCALED[how](loss, model).backward()
    with pytest.raises(ConfigError, match=r"step\(\) without loss\.backward\(\)"):
        optimizer.step()
    loss.backward()
    optimizer.step()
    assert engine.steps == steps + 1


def first_of(engine, optimizer, loader):
    """The first batch with records, after the steps of empty ones."""
    for batch in loader:
        if len(batch[0]):
            return batch
        turn(engine, optimizer, batch)
    raise AssertionError


def penalty(model):
    return sum(parameter.square().sum() for parameter in model.parameters())


PENALISED = {
    "before": lambda loss, model: penalty(model) + loss,
    "behind": lambda loss, model: loss + penalty(model),
    "deep": lambda loss, model: loss + (penalty(model).exp().log() * 1.0 + 0.0),
}


@pytest.mark.parametrize("order", PENALISED)
def test_a_penalty_beside_the_loss_is_refused_before_anything_is_paid_in_any_order_of_the_graph(order):
    model, optimizer, engine, loader = setting()
    loss = engine.loss(*first_of(engine, optimizer, loader))
    steps = engine.steps
    before = [parameter.detach().clone() for parameter in model.parameters()]
    with suppress(ConfigError):  # the penalty's gradient may come before the loss's
        PENALISED[order](loss, model).backward()
    with pytest.raises(ConfigError, match=r"weight\.grad was written .* weight_decay of the optimizer"):
        optimizer.step()
    assert engine.steps == steps
    assert all(torch.equal(*pair) for pair in zip(model.parameters(), before, strict=True))
    optimizer.zero_grad()


def test_a_constant_beside_the_loss_changes_nothing():
    _, optimizer, engine, loader = setting()
    (engine.loss(*first_of(engine, optimizer, loader)) + 3.0).backward()
    optimizer.step()


@pytest.mark.parametrize("when", ["before the loss", "before the step"])
def test_a_raw_gradient_from_elsewhere_is_refused(when):
    model, optimizer, engine, loader = setting()
    batch = first_of(engine, optimizer, loader)
    if when == "before the loss":
        losses_of(model, *batch).mean().backward()
        with pytest.raises(ConfigError, match=r"grad was written"):
            engine.loss(*batch).backward()
        return
    engine.loss(*batch).backward()
    losses_of(model, *batch).mean().backward()
    with pytest.raises(ConfigError, match=r"grad was written"):
        optimizer.step()


@pytest.mark.parametrize("to_none", [True, False])
@pytest.mark.parametrize("place", range(4))
def test_zero_grad_may_stand_anywhere_or_nowhere(place, to_none):
    _, optimizer, engine, loader = setting()
    for batch in loader:
        cleared = [optimizer.zero_grad if place == i else lambda set_to_none: None for i in range(3)]
        cleared[0](set_to_none=to_none)
        loss = engine.loss(*batch)
        cleared[1](set_to_none=to_none)
        loss.backward()
        cleared[2](set_to_none=to_none)
        optimizer.step()
    assert engine.steps == len(loader)


def test_clipping_by_hand_finds_no_gradient_and_that_of_the_last_step_is_refused():
    model, optimizer, engine, loader = setting()
    batches = iter(loader)
    engine.loss(*next(batches)).backward()
    assert nn.utils.clip_grad_norm_(model.parameters(), 0.1) == 0
    optimizer.step()
    engine.loss(*next(batches)).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1e-3)  # the last step's, as nobody called zero_grad
    with pytest.raises(ConfigError, match=r"clip_grad_norm_ or a trainer .*zero_grad"):
        optimizer.step()
    optimizer.zero_grad()
    optimizer.step()
    assert engine.steps == 2


def test_a_second_backward_is_refused_with_the_graph_kept_or_not_and_after_the_step():
    _, optimizer, engine, loader = setting(**ONES)
    loss = engine.loss(*first_batch(loader))
    loss.backward(retain_graph=True)
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"second backward\(\)"):
            loss.backward()
    optimizer.step()
    with pytest.raises(ConfigError, match=r"second backward\(\)"):
        loss.backward()
    assert engine.steps == 1


@pytest.mark.parametrize("form", ["none", "inputs", "detached"])
def test_a_draw_with_records_and_without_its_backward_is_refused(form):
    model, optimizer, engine, loader = setting(**ONES)
    loss = engine.loss(*first_batch(loader))
    if form == "inputs":
        loss.backward(inputs=list(model.parameters()))
    with pytest.raises(ConfigError, match=r"without loss\.backward\(\) of this draw, or after .*inputs"):
        optimizer.step()
    assert engine.steps == 0


def test_an_empty_draw_needs_no_backward_and_has_noise():
    model, optimizer, engine, loader = setting(noise_multiplier=5.0)
    for _ in range(100):
        for batch in loader:
            if not len(batch[0]):
                before = model[0].weight.detach().clone()
                optimizer.step()
                assert not torch.equal(model[0].weight, before)
                return
            turn(engine, optimizer, batch)
    raise AssertionError


HALF = {"batch_size": 12}  # two draws, which are empty once in 2^24


def test_each_draw_has_one_loss():
    _, optimizer, engine, loader = setting(**HALF)
    first, second = loader
    loss = engine.loss(*first)
    for batch in (first, second):
        with pytest.raises(ConfigError, match="has a loss and no step, or this is its loss a second time"):
            engine.loss(*batch)
    loss.backward()
    for batch in (first, second):
        with pytest.raises(ConfigError, match=r"Several turns .* \(gradient accumulation\)"):
            engine.loss(*batch)
    optimizer.step()
    turn(engine, optimizer, second)
    assert engine.steps == 2


@pytest.mark.parametrize("moved", [False, True])
def test_a_batch_goes_in_whole_and_in_its_turn(moved):
    """A batch that was copied to another device is known by its number of records."""
    _, optimizer, engine, loader = setting(**HALF)
    first, second = loader
    x, y = small_batch(RECORDS)
    wrong = [
        (x[:1].double(), y[:1]),
        [part[1:] for part in first],
        [torch.cat((part, part)) for part in first],
    ]
    if not moved or len(first[0]) != len(second[0]):
        wrong.append([part.clone() for part in second] if moved else second)
    for batch in wrong:
        with pytest.raises(ConfigError, match=r"not the draw whose turn it is.*To evaluate"):
            engine.loss(*batch)
    for batch in (first, second):
        turn(engine, optimizer, [part.clone() for part in batch] if moved else batch)
    with pytest.raises(ConfigError, match="No draw waits for a step"):
        engine.loss(*second)
    with pytest.raises(ConfigError, match="No draw waits for a step"):
        optimizer.step()
    assert engine.steps == 2


def test_a_later_batch_of_as_many_records_is_known_by_its_tensors():
    first, second = [torch.zeros(1)], [torch.zeros(2)]
    while len(first[0]) != len(second[0]):
        _, optimizer, engine, loader = setting(**HALF)
        first, second = loader
    with pytest.raises(ConfigError, match="not the draw whose turn it is"):
        engine.loss(first[0], second[1])
    for batch in (first, second):
        turn(engine, optimizer, batch)


def test_a_turn_that_is_skipped_because_it_is_empty_is_noticed_at_the_next():
    _, optimizer, engine, loader = setting()

    def careless():
        for _ in range(50):
            for number, batch in enumerate(loader, 1):
                if len(batch[0]) or number == len(loader):  # whose draw the next loop would hand out again
                    turn(engine, optimizer, batch)

    with pytest.raises(ConfigError, match="an empty one too"):
        careless()


def ahead(loader, by):
    """As trainers fetch batches: `by` of them before the first is used."""
    batches, line = iter(loader), []
    for batch in batches:
        line.append(batch)
        if len(line) > by:
            yield line.pop(0)
    yield from line


@pytest.mark.parametrize("by", [1, 2, 99])
def test_a_loop_may_fetch_batches_ahead_of_its_steps(by):
    model, optimizer, engine, loader = setting(noise_multiplier=0.0)
    twin = Twin(model)
    by_hand = torch.optim.SGD(twin.model.parameters(), lr=0.5)
    for epoch in range(1, 4):
        for batch in ahead(loader, by):
            turn(engine, optimizer, batch)
            twin.set_grads(losses_of, [batch], batch_size=BATCH, max_grad_norm=0.3)
            by_hand.step()
        assert engine.steps == epoch * len(loader)
    twin.assert_same(model)
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
    twin, calls = Twin(model), []
    by_hand = torch.optim.SGD(twin.model.parameters(), lr=0.5)
    for form, batch in zip(("position", "keyword"), loader, strict=True):

        def closure(batch=batch):
            optimizer.zero_grad()
            loss = engine.loss(*batch)
            loss.backward()
            calls.append(len(calls))
            return loss

        with torch.no_grad():
            optimizer.step(closure) if form == "position" else optimizer.step(closure=closure)
        twin.set_grads(losses_of, [batch], batch_size=12, max_grad_norm=0.3)
        by_hand.step()
    twin.assert_same(model)
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
    twin, accelerator = Twin(model), Accelerator(cpu=True)
    by_hand = torch.optim.SGD(twin.model.parameters(), lr=0.5)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    schedules = [StepLR(optimizer, 3, gamma=0.5), StepLR(by_hand, 3, gamma=0.5)]
    schedules[0] = accelerator.prepare(schedules[0])
    for _ in range(2):
        for batch in loader:
            with accelerator.accumulate(model):
                loss = engine.loss(*batch)
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(model.parameters(), 1.0)  # finds nothing to clip
                optimizer.step()
                optimizer.zero_grad()
            twin.set_grads(losses_of, [batch], batch_size=BATCH, max_grad_norm=0.3)
            by_hand.step()
            for schedule in schedules:
                schedule.step()
    twin.assert_same(model)
    assert engine.steps == 2 * len(loader)


def test_accumulation_by_accelerate_is_refused():
    model, optimizer, engine, loader = setting(**HALF)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    with pytest.raises(ConfigError, match="gradient accumulation"):
        accelerator.backward(engine.loss(*next(iter(loader))))
    assert engine.steps == 0


def test_an_optimizer_that_accelerate_has_wrapped_is_attached_before_that():
    model, _, engine, _ = setting()
    engine.detach()
    wrapped = Accelerator(cpu=True).prepare(torch.optim.SGD(model.parameters()))
    with pytest.raises(ConfigError, match="wraps an optimizer"):
        engine.attach(wrapped, loader=DataLoader([0]))


@pytest.mark.parametrize("kind", ["register_hook", "register_post_accumulate_grad_hook"])
def test_hooks_of_a_trained_weight_s_gradient_are_refused_at_both_places(kind):
    model, optimizer, engine, loader = setting(**HALF)
    batch = next(iter(loader))
    hook = getattr(model[0].weight, kind)(lambda *_: None)
    engine.loss(*batch).backward()
    with pytest.raises(ConfigError, match="has a hook for its gradient"):
        optimizer.step()
    engine.detach()
    with pytest.raises(ConfigError, match="has a hook for its gradient"):
        engine.attach(optimizer, loader=DataLoader(loader.dataset))
    hook.remove()
    assert engine.steps == 0


def test_passes_run_under_the_caller_s_autocast_and_their_sums_do_not():
    seen = []

    def losses(x, y):
        out = engine.module(x)
        seen.append(out.dtype)
        return nn.functional.cross_entropy(out.float(), y, reduction="none")

    model, (x, y) = small_model(), small_batch(RECORDS)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    engine = small_engine(model, **ONES, losses_of=losses, noise_multiplier=1.0)
    loader = engine.attach(optimizer, loader=DataLoader(TensorDataset(x, y)))
    clip, enabled = engine._turns._clip, []
    engine._turns._clip = lambda losses: enabled.append(torch.is_autocast_enabled("cpu")) or clip(losses)
    for batch in loader:
        with torch.autocast("cpu", torch.bfloat16):
            loss = engine.loss(*batch)
        loss.backward()
        optimizer.step()
    assert (seen[-1], enabled) == (torch.bfloat16, [False])


def test_batches_may_be_dicts_in_any_nesting():
    class Records(torch.utils.data.Dataset):
        def __len__(self):
            return RECORDS

        def __getitem__(self, i):
            x, y = small_batch(RECORDS)
            return {"in": {"x": x[i].double()}, "y": y[i], "name": f"record {i}"}

    model = small_model().double()

    def losses(batch):
        return losses_of(model, batch["in"]["x"], batch["y"])

    twin, optimizer = Twin(model), torch.optim.SGD(model.parameters(), lr=0.5)
    by_hand = torch.optim.SGD(twin.model.parameters(), lr=0.5)
    with pytest.warns(UserWarning, match="noise_multiplier=0"):
        engine = small_engine(
            model, batch_size=BATCH, sample_size=RECORDS, noise_multiplier=0, losses_of=losses
        )
    loader = engine.attach(optimizer, loader=DataLoader(Records()), physical_batch_size=2)
    for _ in range(4):
        for batch in loader:
            turn(engine, optimizer, (OrderedDict(batch),))
            twin.set_grads(losses_of, [(batch["in"]["x"], batch["y"])], batch_size=BATCH, max_grad_norm=0.1)
            by_hand.step()
    twin.assert_same(model)
    assert engine.steps == 32


def test_losses_that_mix_and_losses_of_another_number_are_refused():
    model = small_model().double()
    for wrong, error in (
        (lambda losses: losses / len(losses), ProbeError),
        (lambda losses: losses[1:], ModelError),
    ):
        _, _, engine, loader = setting(
            model, losses_of=lambda x, y, wrong=wrong: wrong(losses_of(model, x, y)), **HALF
        )
        with pytest.raises(error):
            engine.loss(*next(iter(loader)))
        assert engine.steps == 0
        engine.detach()


def test_a_pass_with_other_losses_than_records_is_refused_though_the_sum_would_fit():
    passes = []

    def losses(x, y):
        passes.append(len(x))
        other = len(passes) > before and (slice(1, None) if len(passes) % 2 else [0, *range(len(x))])
        return losses_of(model, x, y)[other] if other else losses_of(model, x, y)

    before, model = 10**9, small_model().double()
    _, optimizer, engine, loader = setting(model, losses_of=losses, check_every=10**9, physical=4, **HALF)
    batches = iter(loader)
    turn(engine, optimizer, next(batches))
    before = len(passes)
    with pytest.raises(ConfigError, match=r"losses for \d+ records"):
        engine.loss(*next(batches))


def test_a_loss_needs_the_loader_of_attach_and_losses_of():
    engine = small_engine(small_model(), noise_multiplier=1.0)
    with pytest.raises(ConfigError, match=r"needs PrivacyEngine\(.*losses_of.*loader=loader"):
        engine.loss(*small_batch())
    _, _, engine, loader = setting(losses_of=None)
    with pytest.raises(ConfigError, match=r"needs PrivacyEngine\(.*losses_of"):
        engine.loss(*next(iter(loader)))


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

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    usual = {"batch_size": BATCH, "sample_size": RECORDS, "noise_multiplier": 1.0, "check_every": 10**9}
    engine = small_engine(model, losses_of=losses, **usual)
    loader, seen = engine.attach(optimizer, loader=DataLoader(Augmented(x, y), batch_size=2)), []
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
