"""Writes a model that was trained on public records, and the private records that it is to be adapted to.

The public records are digits as they are; the private ones are others, paler and a pixel to the right, as
another scanner gives them. Usage: python prepare.py FOLDER
"""

import sys
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits

from fl_dp.form import Form
from fl_dp.models.build import build_model

MODEL = "mlp:256,256"


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    digits = load_digits()
    images, labels = (digits.images * 15).astype(np.uint8), digits.target.astype(np.int64)
    save_public_model(folder / "public.pt", images[:600], labels[:600])
    scanned = np.roll(images[600:] * 0.7, 1, axis=2).astype(np.uint8)
    np.savez(
        folder / "private.npz",
        x_train=scanned[:900], y_train=labels[600:1500], x_test=scanned[900:], y_test=labels[1500:],
        classes=np.array([str(digit) for digit in range(10)]),
    )  # fmt: skip


def save_public_model(file: Path, images: np.ndarray, labels: np.ndarray) -> None:
    """Plain training: nobody's privacy is at stake here."""
    torch.manual_seed(0)
    model = build_model(MODEL, Form((1, 8, 8), 10), seed=0)
    inputs = torch.tensor(images, dtype=torch.float32).unsqueeze(1) / 127.5 - 1
    targets = torch.tensor(labels)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(100):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
    torch.save(model.state_dict(), file)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
