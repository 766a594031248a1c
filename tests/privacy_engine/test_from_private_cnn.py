"""Loops written for private_CNN, with its own calls; docs/migrating.md says what changes."""

import pytest
import torch
import torch.nn.functional as F
from attached import losses_of
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from twin import Twin

from fl_dp import AssumedSamplingWarning, PrivacyEngine

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
