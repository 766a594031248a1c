"""Loops written for Opacus, changed as docs/migrating.md says: they train what the definition says."""

from types import SimpleNamespace

import pytest
import torch
from attached import losses_of, small_batch, small_engine, small_model
from opacus.accountants import RDPAccountant
from opacus.accountants.utils import get_noise_multiplier
from opacus.schedulers import ExponentialNoise, StepGradClip
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset
from twin import Twin

from fl_dp import PoissonSampler, PrivacyEngine
from fl_dp.errors import ConfigError

RECORDS, BATCH, PHYSICAL, EPOCHS = 24, 8, 4, 2
STEPS = EPOCHS * RECORDS // BATCH


def setting():
    model = small_model().double()
    x, y = small_batch(RECORDS)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    return model, optimizer, StepLR(optimizer, step_size=1, gamma=0.7), TensorDataset(x.double(), y)


def sampler_of(steps=STEPS):  # was: DataLoader(data, batch_size=BATCH), given to make_private
    return PoissonSampler(RECORDS, expected_batch_size=BATCH, physical_batch_size=PHYSICAL, steps=steps)


def train(model, optimizer, scheduler, data, sampler, stop=None):
    """The usual loop; returns the logical batches that were drawn."""
    loader, drawn = DataLoader(data, batch_sampler=sampler), []
    for batches in sampler.logical_batches(loader):  # was: with BatchMemoryManager(...) as loader
        drawn.append([])
        for x, y in batches:
            optimizer.zero_grad()
            optimizer.virtual_step(loss=losses_of(model, x, y))  # was: loss.backward(), optimizer.step()
            assert len(x) <= PHYSICAL
            drawn[-1].append((x, y))
        optimizer.step(loss=None)
        if optimizer.privacy_engine.steps % (RECORDS // BATCH) == 0:
            scheduler.step()  # once an epoch
        if optimizer.privacy_engine.steps == stop:
            break
    return drawn


def assert_trained_as_defined(twin, model, drawn, settings_of):
    optimizer = torch.optim.SGD(twin.model.parameters(), lr=0.5, momentum=0.9)
    scheduler = StepLR(optimizer, step_size=1, gamma=0.7)
    for step, batch in enumerate(drawn):
        noise, bound = settings_of(step)
        twin.set_grads(losses_of, batch, batch_size=BATCH, noise_multiplier=noise, max_grad_norm=bound)
        optimizer.step()
        if (step + 1) % (RECORDS // BATCH) == 0:
            scheduler.step()
    twin.assert_same(model)


def test_make_private_batch_memory_manager_and_learning_rates():
    model, optimizer, scheduler, data = setting()
    twin = Twin(model)
    engine = PrivacyEngine(  # was: engine.make_private(module=, optimizer=, data_loader=, ...)
        module=model,
        batch_size=BATCH,
        sample_size=RECORDS,
        noise_multiplier=1.1,
        max_grad_norm=0.3,
        accountant="rdp",
        generator=torch.Generator().manual_seed(4),
    )
    sampler = sampler_of()
    engine.attach(optimizer, sampler=sampler)
    drawn = train(model, optimizer, scheduler, data, sampler)
    assert len(drawn) == STEPS
    assert_trained_as_defined(twin, model, drawn, lambda step: (1.1, 0.3))
    assert engine.get_privacy_spent().sampling == "seen"
    assert list(model.state_dict()) == list(small_model().state_dict())  # Opacus' begin with _module.


def test_a_schedule_of_noise_and_bounds_is_an_engine_for_each_epoch_and_costs_what_opacus_says():
    """Opacus' own schedulers say what each epoch's numbers are. Each engine continues the count."""
    model, optimizer, scheduler, data = setting()
    twin, each, generator = Twin(model), RECORDS // BATCH, torch.Generator().manual_seed(4)
    sampler, drawn = sampler_of(each), []
    for epoch in range(EPOCHS):
        engine = PrivacyEngine(
            model,
            batch_size=BATCH,
            sample_size=RECORDS,
            noise_multiplier=1.2 * 0.9**epoch,
            max_grad_norm=0.3 * 0.5**epoch,
            accountant="rdp",
            generator=generator,
        )
        engine.attach(optimizer, sampler=sampler)
        drawn += train(model, optimizer, scheduler, data, sampler)
        engine.detach()

    there, accountant = SimpleNamespace(noise_multiplier=1.2, max_grad_norm=0.3), RDPAccountant()
    theirs = [ExponentialNoise(there, gamma=0.9), StepGradClip(there, step_size=1, gamma=0.5)]
    settings = []
    for _ in range(EPOCHS):
        settings += [(there.noise_multiplier, there.max_grad_norm)] * each
        for _ in range(each):
            accountant.step(noise_multiplier=there.noise_multiplier, sample_rate=BATCH / RECORDS)
        for one in theirs:
            one.step()
    assert_trained_as_defined(twin, model, drawn, settings.__getitem__)
    epsilon = accountant.get_epsilon(engine.target_delta)  # was: engine.get_epsilon(delta)
    spent = engine.get_privacy_spent()
    assert (spent.steps, engine.steps) == (STEPS, each)
    assert spent.epsilon == pytest.approx(epsilon, rel=1e-3)


@pytest.mark.filterwarnings("ignore:Optimal order")  # of Opacus, on its way
def test_make_private_with_epsilon_takes_the_noise_that_opacus_takes():
    asked = {"target_epsilon": 3.0, "target_delta": 1e-5, "epochs": EPOCHS}
    engine = PrivacyEngine(
        small_model(), batch_size=10, sample_size=100, max_grad_norm=1.0, accountant="rdp", **asked
    )
    theirs = get_noise_multiplier(**asked, sample_rate=0.1, accountant="rdp")
    assert engine.noise_multiplier == pytest.approx(theirs, rel=2e-3)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("get_epsilon", r"get_privacy_spent\(\)\.epsilon, at PrivacyEngine\(target_delta="),
        ("make_private_with_epsilon", r"fl_dp\.make_private.* attach\(optimizer, loader=loader\)"),
        ("save_checkpoint", r"state_dict\(\)"),
        ("get_compatible_module", r"replace_batch_norms\(model\)"),
        ("get_epsilons", "'PrivacyEngine' object has no attribute 'get_epsilons'$"),
    ],
)
def test_a_method_of_opacus_is_no_attribute_and_the_error_names_what_to_call(name, words):
    engine = small_engine(small_model(), noise_multiplier=1.0)
    assert not hasattr(engine, name)
    with pytest.raises(AttributeError, match=words):
        getattr(engine, name)


@pytest.mark.parametrize(
    ("given", "options", "words"),
    [
        (small_model(), {}, "expected a torch.optim optimizer, not Sequential"),
        (
            torch.optim.SGD(small_model().parameters()),
            {"sampler": DataLoader([0])},
            "a fl_dp.PoissonSampler, not DataLoader; .* batch_sampler=sampler",
        ),
    ],
)
def test_attach_refuses_what_is_no_optimizer_or_no_sampler(given, options, words):
    with pytest.raises(ConfigError, match=words):
        small_engine(small_model(), noise_multiplier=1.0).attach(given, **options)


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({"accountant": "rdp"}, "needs module, batch_size=, sample_size=, max_grad_norm= when it is made"),
        ({"module": small_model(), "max_grad_norm": 1.0}, "needs batch_size=, sample_size= when"),
    ],
)
def test_an_engine_that_is_made_before_its_model_is_told_what_it_needs(given, missing):
    with pytest.raises(ConfigError, match=missing):
        PrivacyEngine(**given)


def test_a_noise_scheduler_that_assigns_to_the_optimizer_is_refused_at_the_next_step():
    model, optimizer, _, _ = setting()
    small_engine(model, noise_multiplier=1.0).attach(optimizer)
    with pytest.raises(ValueError, match="noise_multiplier"):  # Opacus' own words
        ExponentialNoise(optimizer, gamma=0.9)
    optimizer.noise_multiplier = 1.0
    ExponentialNoise(optimizer, gamma=0.9).step()
    with pytest.raises(ConfigError, match=r"optimizer\.noise_multiplier was assigned, but nothing reads it"):
        optimizer.step(loss=None)
