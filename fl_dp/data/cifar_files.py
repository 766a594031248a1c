"""CIFAR10 and CIFAR100 through torchvision, which checks the files' MD5 before it unpickles them."""

from pathlib import Path

import torch

from fl_dp.data.download import exclusive, fetch
from fl_dp.data.tensor_data import Split, TensorData


def load_cifar(set_name: str, root: Path, split: Split) -> TensorData:
    """One split of "CIFAR10" or "CIFAR100", uint8 (n, 3, 32, 32); downloaded if missing."""
    with exclusive(root):
        cifar = fetch(set_name, root, train=split == "train")
    images = torch.from_numpy(cifar.data).permute(0, 3, 1, 2).contiguous()  # from (n, 32, 32, 3)
    return TensorData(images, torch.tensor(cifar.targets), tuple(cifar.classes))
