"""Loops written for private_CNN, with its own calls; docs/migrating.md says what changes."""

import pytest
import torch
import torch.nn.functional as F
from attached import losses_of, small_engine, small_model
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from twin import Twin

from fl_dp import AssumedSamplingWarning, PoissonSampler, PrivacyEngine
from fl_dp.errors import ConfigError

WITHOUT_NOISE = pytest.mark.filterwarnings("ignore:noise_multiplier=0")

RECORDS, BATCH, MINI = 24, 8, 4


def setting():
    """As `ModuleValidator.fix` leaves it: no batch norm."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3))
    data = TensorDataset(torch.randn(RECORDS, 1, 6, 6).double(), torch.randint(0, 3, (RECORDS,)))
    net = net.double()
    return net, torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4), data


def assert_trained_as_defined(twin, net, batches):
    optimizer = torch.optim.SGD(twin.model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    for batch in batches:
        twin.set_grads(losses_of, batch, batch_size=BATCH, max_grad_norm=0.1)
        optimizer.step()
    twin.assert_same(net)


@WITHOUT_NOISE
@pytest.mark.parametrize(
    "kernels", [{"ghost_clipping": True, "mixed": True}, {"mixed": False}, {"ghost_clipping": False}], ids=str
)
def test_its_loop_runs_as_it_is_and_says_that_poisson_draws_are_assumed(kernels):
    net, optimizer, data = setting()
    twin, criterion, taken = Twin(net), nn.CrossEntropyLoss(reduction="none"), [[]]
    engine = PrivacyEngine(
        net, batch_size=BATCH, sample_size=RECORDS, max_grad_norm=0.1, noise_multiplier=0, epochs=1, **kernels
    )
    engine.attach(optimizer)
    for i, (inputs, targets) in enumerate(DataLoader(data, batch_size=MINI, shuffle=True)):
        taken[-1].append((inputs, targets))
        loss = criterion(net(inputs), targets)
        if (i + 1) % (BATCH // MINI) == 0:
            optimizer.step(loss=loss)
            optimizer.zero_grad()
            taken.append([])
        else:
            optimizer.virtual_step(loss=loss)
    assert_trained_as_defined(twin, net, taken[:-1])
    assert optimizer.privacy_engine is engine
    assert optimizer.get_privacy_spent().sampling == "assumed"
    engine.detach()
    assert not hasattr(optimizer, "virtual_step")


@WITHOUT_NOISE
def test_with_a_sampler_in_the_loader_s_place_every_step_is_seen():
    net, optimizer, data = setting()
    twin, taken = Twin(net), []
    engine = PrivacyEngine(
        net, batch_size=BATCH, sample_size=RECORDS, max_grad_norm=0.1, noise_multiplier=0, epochs=1
    )
    sampler = PoissonSampler(RECORDS, expected_batch_size=BATCH, physical_batch_size=MINI, steps=4)
    engine.attach(optimizer, sampler=sampler)
    for batches in sampler.logical_batches(DataLoader(data, batch_sampler=sampler)):
        taken.append([])
        for inputs, targets in batches:
            taken[-1].append((inputs, targets))
            optimizer.virtual_step(loss=F.cross_entropy(net(inputs), targets, reduction="none"))
        optimizer.step(loss=None)
    assert_trained_as_defined(twin, net, taken)
    assert (engine.steps, engine.get_privacy_spent().sampling) == (4, "seen")


def test_its_budget_is_kept_after_all_its_steps_and_one_part_of_the_noise_is_told():
    net, optimizer, data = setting()
    engine = PrivacyEngine(
        net,
        batch_size=BATCH,
        sample_size=RECORDS,
        epochs=2,
        max_grad_norm=0.1,
        target_epsilon=3,
        accounting_mode="rdp_cks",
    )
    engine.attach(optimizer)
    for _ in range(2):
        for inputs, targets in DataLoader(data, batch_size=BATCH, shuffle=True, drop_last=True):
            optimizer.step(loss=F.cross_entropy(net(inputs), targets, reduction="none"))
    with pytest.warns(AssumedSamplingWarning):
        spent = optimizer.get_privacy_spent()
    assert (spent.steps, spent.epsilon) == (6, pytest.approx(3.0, rel=0.01))
    assert spent.epsilon <= 3.0
    assert optimizer.get_training_stats()["snr"] > 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mode": "ghost-mixed"}, "mode='ghost-mixed' cannot be honoured: 'ghost-mixed' is the default"),
        ({"fp16": True}, "autocast"),
        ({"alphas": (2, 3)}, r"alphas=.*its own orders"),
        ({"eps_error": 0.05}, "eps_error=0.05"),
        ({"numerical_stability_constant": 1e-6}, "without one"),
        ({"accounting_mode": "gdp"}, "can report less"),
    ],
    ids=lambda options: next(iter(options)) if isinstance(options, dict) else None,
)
def test_what_its_engine_takes_and_this_does_not_is_refused_by_name(options, words):
    with pytest.raises(ConfigError, match=words):
        small_engine(small_model(), **{"noise_multiplier": 1.0, **options})


def test_its_data_parallel_model_is_sent_back_to_be_unwrapped():
    net = nn.DataParallel(small_model())
    with pytest.raises(ConfigError, match=r"wrapped in DataParallel.* ranks='all'"):
        small_engine(net, noise_multiplier=1.0)
    assert small_engine(net.module, noise_multiplier=1.0)
