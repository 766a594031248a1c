import importlib.util

import pytest
import torch

from fl_dp.data.sources.digits import load_digits
from fl_dp.errors import DataError
from fl_dp.form import Form


def test_the_two_splits_are_scikit_learns_digits() -> None:
    from sklearn import datasets

    original = datasets.load_digits()
    expected = sorted(
        (*map(int, image), label) for image, label in zip(original.data, original.target, strict=True)
    )
    found = [
        (*(round(pixel.item() * 16 / 255) for pixel in image.flatten()), label.item())
        for data in (load_digits("train"), load_digits("test"))
        for image, label in zip(data.x, data.y, strict=True)
    ]
    assert sorted(found) == expected


def test_the_split_is_stratified_80_to_20_and_never_changes() -> None:
    data = load_digits("train")
    assert data.form == Form((1, 8, 8), 10)
    assert (data.x.dtype, data.x.min(), data.x.max()) == (torch.uint8, 0, 255)
    train, test = (torch.bincount(load_digits(split).y, minlength=10) for split in ("train", "test"))
    assert (train.sum(), test.sum()) == (1442, 355)
    assert ((test / (train + test) - 0.2).abs() < 0.01).all()
    assert load_digits("test").fingerprint().startswith("c9d0a710283e058d")


def test_a_missing_file_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DataError, match=r"digits\.csv\.gz is missing"):
        load_digits("train")
