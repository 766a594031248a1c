"""A loop written for Opacus, and the same loop here. Both run; neither data nor model matter.

Usage: python from_opacus.py opacus|fl_dp
"""

import sys

import torch
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
    engine = PrivacyEngine()
    model, optimizer, criterion, loader = engine.make_private_with_epsilon(
        module=model,
        optimizer=optimizer,
        criterion=nn.CrossEntropyLoss(),
        data_loader=DataLoader(records, batch_size=BATCH),
        target_epsilon=3.0,
        target_delta=1e-5,
        epochs=EPOCHS,
        max_grad_norm=1.0,
        grad_sample_mode="ghost",
    )
    for _ in range(EPOCHS):
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = criterion(model(inputs), targets)
            loss.backward()
            optimizer.step()
    return f"epsilon {engine.get_epsilon(1e-5):.2f}"


def with_fl_dp() -> str:
    import fl_dp

    model, optimizer, records = setting()
    model, optimizer, criterion, loader = fl_dp.make_private_with_epsilon(
        module=model,
        optimizer=optimizer,
        criterion=nn.CrossEntropyLoss(),
        data_loader=DataLoader(records, batch_size=BATCH),
        target_epsilon=3.0,
        target_delta=1e-5,
        epochs=EPOCHS,
        max_grad_norm=1.0,
        grad_sample_mode="ghost",
    )
    for _ in range(EPOCHS):
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = criterion(model(inputs), targets)  # its value is NaN, unless show_loss=True
            loss.backward()
            optimizer.step()
    return f"{optimizer.get_privacy_spent()}"


if __name__ == "__main__":
    print(with_opacus() if sys.argv[1:] == ["opacus"] else with_fl_dp())
