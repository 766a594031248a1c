"""engine.loss(*batch), backward(), step(): equal to the definition, and no gradient without noise is left."""

from contextlib import suppress

import pytest
import torch
from attached import losses_of, small_batch, small_engine, small_model
from privacy_engine.turns import HALF, ONES, RECORDS, ByHand, first_of, setting, turn
from torch import nn

from fl_dp.errors import ConfigError, ModelError, ProbeError


@pytest.mark.parametrize("physical", [1, 2, 5, RECORDS])
@pytest.mark.parametrize("noise", [0.0, 1.1])
def test_each_step_is_one_backward_per_example_however_a_draw_is_cut(physical, noise):
    model, optimizer, engine, loader = setting(
        physical=physical, noise_multiplier=noise, generator=torch.Generator().manual_seed(4)
    )
    by_hand, sizes = ByHand(model, noise=noise), []
    while 0 not in sizes or len(sizes) < 24:
        for x, y in loader:
            turn(engine, optimizer, (x, y))
            by_hand.step(x, y)
            sizes.append(len(x))
    by_hand.twin.assert_same(model)
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
    seen = []
    model, optimizer, engine, loader = setting(
        **ONES,
        loader_size=own,
        check_every=10**9,
        losses_of=lambda x, y: seen.append(len(x)) or losses_of(model, x, y),
    )
    for _ in range(2):
        seen.clear()
        turn(engine, optimizer, next(iter(loader)))
    assert len(seen) == passes


def grads(model):
    return [parameter.grad for parameter in model.parameters()]


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
    with pytest.raises(ConfigError, match=r"weight\.grad was written .* the optimizer's weight_decay"):
        optimizer.step()
    assert engine.steps == steps
    assert all(torch.equal(*pair) for pair in zip(model.parameters(), before, strict=True))
    optimizer.zero_grad()


def test_a_constant_beside_the_loss_changes_nothing():
    _, optimizer, engine, loader = setting()
    (engine.loss(*first_of(engine, optimizer, loader)) + 3.0).backward()
    optimizer.step()


def test_a_raw_gradient_from_elsewhere_is_refused_at_the_loss():
    model, optimizer, engine, loader = setting()
    batch = first_of(engine, optimizer, loader)
    losses_of(model, *batch).mean().backward()
    with pytest.raises(ConfigError, match=r"grad was written"):
        engine.loss(*batch).backward()


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
    loss = engine.loss(*next(iter(loader)))
    loss.backward(retain_graph=True)
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"second backward\(\)"):
            loss.backward()
    optimizer.step()
    with pytest.raises(ConfigError, match=r"second backward\(\)"):
        loss.backward()
    assert engine.steps == 1


@pytest.mark.parametrize("form", ["none", "inputs"])
def test_a_draw_with_records_and_without_its_backward_is_refused(form):
    model, optimizer, engine, loader = setting(**ONES)
    loss = engine.loss(*next(iter(loader)))
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

    with pytest.raises(ConfigError, match="an empty one"):
        careless()


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
