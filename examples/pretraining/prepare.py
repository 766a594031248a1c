"""Splits the digits into public records and private ones of other writers. Usage: python prepare.py FOLDER

The set stands in the order in which its writers were asked, so that a cut in the middle parts them.
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
    _save(folder / "public.npz", images[:_HALF], labels[:_HALF], images[_TRAIN:], labels[_TRAIN:])
    _save(
        folder / "private.npz",
        images[_HALF:_TRAIN], labels[_HALF:_TRAIN], images[_TRAIN:], labels[_TRAIN:],
    )  # fmt: skip


def _save(
    file: Path, images: np.ndarray, labels: np.ndarray, test_images: np.ndarray, test_labels: np.ndarray
) -> None:
    np.savez(
        file, x_train=images, y_train=labels, x_test=test_images, y_test=test_labels,
        classes=np.array([str(digit) for digit in range(10)]),
    )  # fmt: skip


if __name__ == "__main__":
    main(Path(sys.argv[1]))
