"""Saved and loaded, training goes on with new noise and new draws; with other settings it does not."""

import pytest
import torch
from attached import losses_of, small_batch, small_engine, small_model
from torch.utils.data import DataLoader, TensorDataset

from fl_dp import PoissonSampler
from fl_dp.engine.bounds import split_bound
from fl_dp.engine.noise.randomness import Randomness
from fl_dp.errors import ConfigError


@pytest.mark.parametrize(("momentum", "generator"), [(0.0, None), (0.9, "secure")])
def test_saved_between_logical_batches_training_goes_on_as_far_as_noise_allows(momentum, generator, tmp_path):
    """With next to no noise all else is seen to go on: weights, momentum, what was counted."""
    x, y = small_batch()

    def train(model, optimizer, batches):
        for i in batches:
            loss = losses_of(model, x[i : i + 4], y[i : i + 4])
            (optimizer.step if i == 8 else optimizer.virtual_step)(loss=loss)

    def start():
        model = small_model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=momentum)
        engine = small_engine(model, noise_multiplier=1e-4, generator=generator)
        engine.attach(optimizer)
        return model, optimizer, engine

    whole = start()
    train(*whole[:2], [0, 4, 8])
    torch.save([part.state_dict() for part in whole], tmp_path / "checkpoint.pt")
    train(*whole[:2], [0, 4, 8, 0, 8])
    resumed = start()
    resumed[1].virtual_step(loss=losses_of(resumed[0], x, y))  # loading drops what it gathered
    for part, state in zip(resumed, torch.load(tmp_path / "checkpoint.pt"), strict=True):
        part.load_state_dict(state)
    train(*resumed[:2], [0, 4, 8, 0, 8])
    for a, b in zip(whole[0].parameters(), resumed[0].parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=0)
        assert not torch.equal(a, b)  # the noise is new
    assert resumed[2].steps == whole[2].steps == 3


@pytest.mark.parametrize(
    "options",
    [
        {"noise_multiplier": 2.0},
        {"batch_size": 20},
        {"max_grad_norm": 1.0},
        {"max_grad_norm": {"0": 0.06, "2": 0.08}},
        {"clipping": "automatic"},
        {"generator": torch.Generator()},
    ],
    ids=lambda options: next(iter(options)),  # no address: every process has the same tests
)
def test_the_state_of_an_engine_with_other_settings_is_refused(options):
    settings = {"noise_multiplier": 1.0, "max_grad_norm": 0.1}
    state = small_engine(small_model(), **settings | options).state_dict()
    with pytest.raises(ConfigError, match="saved engine had") as told:
        small_engine(small_model(), **settings).load_state_dict(state)
    assert ("sample_rate" in str(told.value)) == ("batch_size" in options)  # what differs alone
    assert len(str(told.value)) < 250


@pytest.mark.parametrize("generator", [Randomness(bytes(32)), "os", 7])
def test_noise_from_elsewhere_is_refused(generator):
    """A Randomness would give two steps of one sum the same noise."""
    with pytest.raises(ConfigError, match=r"expected 'secure' or a torch\.Generator"):
        small_engine(small_model(), noise_multiplier=1.0, generator=generator)


def test_a_whole_loop_is_taken_up_after_any_step(tmp_path):
    """Optimizer with two moments, scheduler, Poisson sampler, automatic clipping by layers."""
    data = TensorDataset(*small_batch(40))

    def start():
        model = small_model()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        engine = small_engine(
            model,
            noise_multiplier=1.0,
            sample_size=40,
            clipping="automatic",
            max_grad_norm=split_bound(0.1, ["0", "2"]),
        )
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=6)
        sampler = PoissonSampler(40, expected_batch_size=10, physical_batch_size=3, steps=6)
        engine.attach(optimizer, sampler=sampler)
        return model, optimizer, engine, scheduler, sampler

    def train(parts, stop=None):
        model, optimizer, engine, scheduler, sampler = parts
        for batches in sampler.logical_batches(DataLoader(data, batch_sampler=sampler)):
            for x, y in batches:
                optimizer.virtual_step(loss=losses_of(model, x, y))
            optimizer.step(loss=None)
            scheduler.step()
            if engine.steps == stop:
                return

    whole = start()
    train(whole, stop=4)
    torch.save([part.state_dict() for part in whole], tmp_path / "checkpoint.pt")
    resumed = start()
    for part, state in zip(resumed, torch.load(tmp_path / "checkpoint.pt"), strict=True):
        part.load_state_dict(state)
    for parts in (whole, resumed):
        train(parts)
        parts[2].detach()
        assert parts[2].steps == 6
        assert parts[2].get_privacy_spent().sampling == "seen"
        assert parts[1].param_groups[0]["lr"] == pytest.approx(0.0)
    assert not torch.equal(whole[0][0].weight, resumed[0][0].weight)
    forgetful = start()  # the engine's state is left out: four steps would not be counted
    forgetful[-1].load_state_dict(torch.load(tmp_path / "checkpoint.pt")[-1])
    with pytest.raises(ConfigError, match=r"4 steps of this pass.* counted 0: .* the engine's state_dict"):
        train(forgetful)
    assert forgetful[2].steps == 0
