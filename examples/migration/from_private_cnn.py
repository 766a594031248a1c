"""A loop written for private_CNN (Bu, Mao, Xu 2022), as it runs here: what changes is marked NEW."""

import torch
import torch.nn.functional as F
import torchvision
from opacus.validators import ModuleValidator
from torch.utils.data import DataLoader, TensorDataset

from fl_dp import PoissonSampler, PrivacyEngine  # NEW: was private_CNN

RECORDS, BATCH, PHYSICAL, EPOCHS = 96, 32, 16, 1


def main() -> None:
    torch.manual_seed(0)
    records = TensorDataset(torch.randn(RECORDS, 3, 32, 32), torch.randint(10, (RECORDS,)))
    model = ModuleValidator.fix(torchvision.models.resnet18(num_classes=10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    engine = PrivacyEngine(
        model, batch_size=BATCH, sample_size=RECORDS, epochs=EPOCHS, max_grad_norm=0.1, target_epsilon=3
    )  # NEW: without mode=
    sampler = PoissonSampler(RECORDS, expected_batch_size=BATCH, physical_batch_size=PHYSICAL)  # NEW
    engine.attach(optimizer, sampler=sampler)
    loader = DataLoader(records, batch_sampler=sampler)  # NEW: was batch_size=, shuffle=True

    for batches in sampler.logical_batches(loader):  # NEW: was counting every tenth batch
        for images, labels in batches:
            loss = F.cross_entropy(model(images), labels, reduction="none")
            optimizer.virtual_step(loss=loss)
        optimizer.step(loss=None)  # NEW: was step(loss=loss) with the last part
    print(engine.get_privacy_spent())


if __name__ == "__main__":
    main()
