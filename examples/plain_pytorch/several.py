"""A private loop in several processes (docs/training_loop.md): torchrun --nproc-per-node 2 several.py."""

import torch
import torch.nn.functional as F
from torch import distributed, nn
from torch.utils.data import DataLoader, TensorDataset

from fl_dp import PoissonSampler, PrivacyEngine

distributed.init_process_group("gloo")
torch.manual_seed(0)  # the same weights on all ranks
inputs = torch.randn(2000, 20)  # all records, in the same order on all ranks
dataset = TensorDataset(inputs, (inputs.sum(dim=1) > 0).long())
model = nn.Linear(20, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)

engine = PrivacyEngine(
    model,
    losses_of=lambda x, y: F.cross_entropy(model(x), y, reduction="none"),
    batch_size=200,
    sample_size=2000,
    epochs=3,
    max_grad_norm=1.0,
    target_epsilon=3.0,
    ranks="all",
)
sampler = PoissonSampler(2000, expected_batch_size=200, physical_batch_size=64)
engine.attach(optimizer, sampler=sampler)  # compares the ranks; from now on all make the same draws

loader = DataLoader(dataset, batch_sampler=sampler)  # this rank's share of each draw
for _ in range(3):
    for batches in sampler.logical_batches(loader):
        for x, y in batches:
            optimizer.virtual_step(loss=engine.losses(x, y))
        optimizer.step(loss=None)  # also on a rank that has no part in this draw

if distributed.get_rank() == 0:
    print(engine.get_privacy_spent())
distributed.destroy_process_group()
