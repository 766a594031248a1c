"""Splits the digits into public records and private ones. Usage: python prepare.py FOLDER

The private ones are of other writers (the set stands in the order in which they were asked), and paler and a
pixel to the right, as another scanner gives them.
"""

import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

_HALF, _TRAIN = 900, 1500  # of 1,797 images: public; private; test


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    digits = load_digits()
    images, labels = (digits.images * 15).astype(np.uint8), digits.target.astype(np.int64)
    scanned = np.roll(images * 0.7, 1, axis=2).astype(np.uint8)
    for name, seen, train in (
        ("public", images, slice(0, _HALF)),
        ("private", scanned, slice(_HALF, _TRAIN)),
    ):
        np.savez(
            folder / f"{name}.npz",
            x_train=seen[train], y_train=labels[train], x_test=seen[_TRAIN:], y_test=labels[_TRAIN:],
            classes=np.array([str(digit) for digit in range(10)]),
        )  # fmt: skip


if __name__ == "__main__":
    main(Path(sys.argv[1]))
