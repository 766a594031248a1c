"""What every batch would be refused for is refused before the first payment, and reads no record."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from fl_dp import Ledger, PrivacyEngine
from fl_dp.errors import FlDpError

N = 40


class Rows(TensorDataset):
    """Remembers which records were read."""

    def __init__(self):
        super().__init__(torch.randn(N, 6), torch.arange(N) % 2)
        self.read = []

    def __getitem__(self, index):
        self.read.append(index)
        return super().__getitem__(index)


def loop(path, model, losses_of, dataset=None, take=lambda engine, batch: engine.loss(*batch)):
    """One turn of a loop that pays; its account."""
    dataset = dataset or Rows()
    account = Ledger.open(path / "l.sqlite").account("ehr", records=dataset, epsilon=8.0)
    engine = PrivacyEngine(
        model,
        losses_of=losses_of,
        batch_size=10,
        sample_size=N,
        max_grad_norm=1.0,
        noise_multiplier=2.0,
        account=account,
        run="r",
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    try:
        for batch in engine.attach(optimizer, loader=DataLoader(dataset, batch_size=10)):
            take(engine, batch).backward()
            optimizer.step()
            break
    finally:
        engine.detach()
    return account


def cross_entropy(model, reduction="none"):
    return lambda x, y: F.cross_entropy(model(x), y, reduction=reduction)


MODELS = {
    "batch norm": lambda: nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 2)),
    "mean": lambda: nn.Linear(6, 2),
}


@pytest.mark.parametrize(("mistake", "words"), [("batch norm", "BatchNorm1d"), ("mean", r"shape \(N,\)")])
def test_what_would_refuse_every_batch_costs_nothing(mistake, words, tmp_path):
    model = MODELS[mistake]()
    with pytest.raises(FlDpError, match=words):
        loop(tmp_path, model, cross_entropy(model, "mean" if mistake == "mean" else "none"))
    with Ledger.open(tmp_path / "l.sqlite") as ledger:
        assert ledger.spent("ehr") == ()


def test_the_model_sees_no_record_before_the_payment(tmp_path):
    model, seen = nn.Linear(6, 2), []

    def losses_of(x, y):
        with Ledger.open(tmp_path / "l.sqlite") as ledger:
            seen.append((x, bool(ledger.spent("ehr"))))
        return cross_entropy(model)(x, y)

    dataset = Rows()
    assert loop(tmp_path, model, losses_of, dataset).spent().charges
    unpaid = [x for x, is_paid in seen if not is_paid]
    assert len(unpaid) == 1
    assert not any((row == dataset.tensors[0]).all(dim=1).any() for row in unpaid[0])
    assert len(seen) > len(unpaid)


def test_code_that_raises_for_what_is_made_up_trains_on_what_is_real(tmp_path):
    model = nn.Linear(6, 2)

    def losses_of(batch):
        return cross_entropy(model)(batch["x"], batch["y"])

    def as_a_mapping(engine, batch):
        return engine.loss({"x": batch[0], "y": batch[1]})

    assert loop(tmp_path, model, losses_of, take=as_a_mapping).spent().charges
