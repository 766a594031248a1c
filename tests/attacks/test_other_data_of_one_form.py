"""Data that have no record in common stand beside each other in a ledger, however alike they look.

The other side of `test_the_same_data_again.py`: who is refused here could not train on records of their own.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from attacks.entered import COLUMNS, NUMBER, Site, answers, clusters, hours, patients, visits


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


PAIRS: dict[str, Callable[[int], pd.DataFrame]] = {
    "two hospitals": patients,
    "two wards of twelve": lambda seed: patients(seed, 12),
    "a small one and a large one": lambda seed: patients(seed, 40 if seed else 4000),
    "the same hours": hours,
    "the same hours, and little else": lambda seed: hours(seed)[["patient", "weight", "ill"]],
    "persons of the same numbers": visits,
    "answers to questions": answers,
    "many missing cells": clusters,
    "numbers alone": lambda seed: patients(seed)[["age", "pressure", "ill"]],
    "many columns": lambda seed: patients(seed).join(
        pd.DataFrame(np.random.default_rng(seed).normal(100, 9, (600, 40)).round(1)).add_prefix("lab")
    ),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_disjoint_tables_of_one_schema_stand_beside_each_other(site: Site, pair: str) -> None:
    for seed in range(3):
        frame = PAIRS[pair](seed)
        missing = 'missing = ["", "nan"]'
        columns = {
            name: COLUMNS[name] + ('\nif-missing = "encode"' if "number" in COLUMNS[name] else "")
            if name in COLUMNS
            else NUMBER
            for name in frame
        }
        site.enter(**site.table(frame, f"set{seed}", more=missing, **columns))


def test_disjoint_texts_and_digits_stand_beside_each_other(site: Site) -> None:
    """A form's headings are in every letter; half of the digits look like the other half."""
    draw = np.random.default_rng(4)
    for name in ("north", "south"):
        letters = [
            f"Discharge letter of the department of internal medicine. Diagnosis: {draw.integers(10**9)}. "
            f"Therapy and further proceedings: {draw.integers(10**9)}. With kind regards, the physicians."
            for _ in range(200)
        ]
        (site.folder / name / "train").mkdir(parents=True)
        (site.folder / name / "train" / "letter.txt").write_text("\n".join(letters))
        site.enter(data=f"text:{site.folder / name}", data_name=name, tokens=32)
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    for half in (0, 1):
        path = site.folder / f"digits{half}.npz"
        part = {"x_train": x[half::2].astype(np.float32), "y_train": y[half::2]}
        np.savez(path, **part, x_test=x[:1], y_test=y[:1], classes=np.array(list("0123456789")))
        site.enter(data=f"npz:{path}")
