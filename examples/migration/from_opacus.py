"""A loop written for Opacus, and the same loop here. Both run; neither data nor model matter.

Usage: python from_opacus.py opacus|fl_dp
"""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS, BATCH, RECORDS = 2, 100, 1000


def setting() -> tuple[nn.Module, torch.optim.Optimizer, TensorDataset]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 32), nn.Tanh(), nn.Linear(32, 2))
    inputs = torch.randn(RECORDS, 20)
    records = TensorDataset(inputs, (inputs.sum(1) > 0).long())
    return model, torch.optim.SGD(model.parameters(), lr=0.5), records


def with_opacus() -> str:
    from opacus import PrivacyEngine

    model, optimizer, records = setting()
    loader = DataLoader(records, batch_size=BATCH)
    engine = PrivacyEngine()
    model, optimizer, loader = engine.make_private_with_epsilon(
        module=model,
        optimizer=optimizer,
        data_loader=loader,
        target_epsilon=3.0,
        target_delta=1e-5,
        epochs=EPOCHS,
        max_grad_norm=1.0,
    )
    for _ in range(EPOCHS):
        for inputs, targets in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(inputs), targets).backward()
            optimizer.step()
    return f"epsilon {engine.get_epsilon(1e-5):.2f}"


def with_fl_dp() -> str:
    from fl_dp import PoissonSampler, PrivacyEngine

    model, optimizer, records = setting()  # the model stays as it is: no wrapper, no _module. in its state
    engine = PrivacyEngine(
        model,
        batch_size=BATCH,
        sample_size=RECORDS,
        epochs=EPOCHS,
        target_epsilon=3.0,
        target_delta=1e-5,
        max_grad_norm=1.0,
    )
    sampler = PoissonSampler(RECORDS, expected_batch_size=BATCH, physical_batch_size=BATCH)
    engine.attach(optimizer, sampler=sampler)
    loader = DataLoader(records, batch_sampler=sampler)
    for _ in range(EPOCHS):
        for batches in sampler.logical_batches(loader):  # one step each; BatchMemoryManager is not needed
            for inputs, targets in batches:
                losses = F.cross_entropy(model(inputs), targets, reduction="none")  # each example's own
                optimizer.virtual_step(loss=losses)  # no backward()
            optimizer.step(loss=None)
    return f"{engine.get_privacy_spent()}"


if __name__ == "__main__":
    print(with_opacus() if sys.argv[1:] == ["opacus"] else with_fl_dp())
