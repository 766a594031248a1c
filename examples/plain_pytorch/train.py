"""An ordinary PyTorch loop on a torchvision model, made private by three lines; no federation.

Usage: python train.py [EPOCHS]
"""

import sys

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset
from torchvision.models import resnet18

from fl_dp import PrivacyEngine


def data() -> tuple[TensorDataset, TensorDataset]:
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 8 - 1  # a public scale: 0 to 16
    images, labels = images.expand(-1, 3, -1, -1), torch.tensor(digits.target)
    return TensorDataset(images[:1400], labels[:1400]), TensorDataset(images[1400:], labels[1400:])


def main(epochs: int) -> None:
    train, test = data()
    # Batch norm lets one record change what becomes of another: the engine refuses it by name.
    model = resnet18(num_classes=10, norm_layer=lambda channels: torch.nn.GroupNorm(8, channels))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)

    engine = PrivacyEngine(
        model,
        losses_of=lambda inputs, targets: F.cross_entropy(model(inputs), targets, reduction="none"),
        batch_size=128,
        sample_size=len(train),
        epochs=epochs,
        max_grad_norm=1.0,
        target_epsilon=8.0,
    )
    loader = engine.attach(optimizer, loader=DataLoader(train, batch_size=64))

    for epoch in range(epochs):
        model.train()
        for inputs, targets in loader:  # one Poisson draw of about 128 records, in passes of at most 64
            optimizer.zero_grad()
            engine.loss(inputs, targets).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            inputs, targets = test.tensors
            accuracy = (model(inputs).argmax(1) == targets).float().mean().item()
        print(f"epoch {epoch + 1}: accuracy {accuracy:.3f}, {engine.get_privacy_spent()}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
