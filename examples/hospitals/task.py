"""Heart disease at four hospitals: their files, split as FLamby splits them, so that figures can be compared.

`data` names one hospital's file, as at a real site, or the folder of all four for a simulation.
"""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from sklearn.model_selection import train_test_split

from fl_dp.config.task import TaskSettings
from fl_dp.data.subgroups import Subgroups
from fl_dp.data.tables.encode import encode
from fl_dp.data.tables.files import read_csv
from fl_dp.data.tables.parse import read_schema
from fl_dp.data.tensor_data import Split, TensorData
from fl_dp.errors import DataError
from fl_dp.form import Form
from fl_dp.tasks.task import Task

SCHEMA = Path(__file__).with_name("heart.schema.toml")
_FEW = 2  # of a class: FLamby then splits without regard to classes


class Hospitals(Task):
    """Whether a patient has heart disease, from ten attributes; a patient's group is the hospital."""

    metrics = ("accuracy", "accuracy-per-subgroup")

    def __init__(self, settings: TaskSettings) -> None:
        super().__init__(settings)
        self._schema = read_schema(SCHEMA)

    def public_form(self) -> Form:
        return self._schema.form

    def meaning(self) -> str:
        return self._schema.meaning

    def train_data(self) -> TensorData:
        return self._records("train")

    def test_data(self) -> TensorData:
        return self._records("test")

    def _records(self, split: Split) -> TensorData:
        path = Path(self.settings.data.removeprefix("csv:"))
        files = sorted(path.glob("*.data")) if path.is_dir() else [path]
        if not files:
            raise DataError(f"{path}: there are no files *.data of hospitals.")
        return together([part(file, split) for file in files], [file.stem for file in files])


def part(file: Path, split: Split) -> TensorData:
    """The training or test records of one hospital, as FLamby chooses them (fed_heart_disease/dataset.py)."""
    schema = read_schema(SCHEMA)
    everything = encode(read_csv(file, header=schema.header), schema, None)
    counts = np.bincount(everything.y, minlength=2)
    train, test = train_test_split(
        np.arange(len(everything)),
        test_size=1 - 0.66,
        train_size=0.66,
        random_state=43,
        stratify=everything.y if min(counts) > _FEW else None,
    )
    return everything.subset(torch.from_numpy(np.sort(train if split == "train" else test)))


def together(parts: list[TensorData], names: list[str]) -> TensorData:
    """Several hospitals' records as one data set, grouped by hospital, which is a subgroup as well."""
    return TensorData(
        torch.cat([one.x for one in parts]),
        torch.cat([one.y for one in parts]),
        parts[0].classes,
        groups=tuple(_each(names, parts)),
        raw=tuple(digest for one in parts for digest in one.raw),
        grouped_by="hospital",
        subgroups=(*_subgroups(parts), Subgroups("hospital", tuple(names), _places(parts))),
    )


def _subgroups(parts: list[TensorData]) -> Iterator[Subgroups]:
    """Those of the schema, of all records."""
    for same in zip(*(one.subgroups for one in parts), strict=True):
        yield dataclasses.replace(same[0], codes=torch.cat([one.codes for one in same]))


def _places(parts: list[TensorData]) -> torch.Tensor:
    return torch.arange(len(parts)).repeat_interleave(torch.tensor([len(one) for one in parts]))


def _each(names: list[str], parts: list[TensorData]) -> Iterator[str]:
    for name, one in zip(names, parts, strict=True):
        yield from [name] * len(one)
