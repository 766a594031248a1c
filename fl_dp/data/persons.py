"""Persons as examples: all records of a person are one example, whose loss is the mean of theirs.

Persons are sampled, clipped and counted. Neighbouring data sets differ in one person with all of its records,
so the sum of a step differs by one clipped vector. The theorems of the Poisson-sampled Gaussian are about
such examples, whatever they hold. So accounting is the same as for records, with the number of persons.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fl_dp.config.data import RECORD, DataSettings
from fl_dp.data.files_read import FilesRead
from fl_dp.data.tensor_data import TensorData
from fl_dp.errors import DataError
from fl_dp.form import Form


@dataclass(frozen=True, eq=False)
class PersonData:
    """Records grouped by person. An example is a person, of whom the first `most` records count.

    records: their `groups` are the persons' ids. most: public; every example is padded to this number of
    records, so that no shape reveals how many a person has.

    DataError for records without an id.
    """

    records: TensorData
    most: int

    def __post_init__(self) -> None:
        if not self.records.groups:
            raise DataError(
                "unit = person: the data do not say whose records they are. A table's schema declares it by "
                'a column of kind "group", an npz file by groups_train, a task by TensorData.groups.'
            )
        if not all(self.records.groups):
            raise DataError("unit = person: some records have no person; give each an id, or leave them out.")

    @property
    def form(self) -> Form:
        """Form of one record."""
        return self.records.form

    def __len__(self) -> int:
        """The number of persons."""
        return len(self._bounds) - 1

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Inputs (b, most, *input_shape), targets (b, most, ...), shares (b, most) of the persons `indices`.

        shares: the weight of each record's loss in its person's, which is the mean of those that count.
        Padding is copies of the person's own first record, with a share of 0: finite whenever that record is.
        """
        rows, shares = self._rows(indices)
        inputs, targets = self.records.batch(rows.reshape(-1))
        shape = rows.shape
        return inputs.view(*shape, *inputs.shape[1:]), targets.view(*shape, *targets.shape[1:]), shares

    def fingerprint(self) -> str:
        """SHA-256 over the set of persons, each with the set of its records, in hex; independent of order."""
        records, order = self.records.digests(), self._order.tolist()
        persons = sorted(
            _sha256(name.encode() + b"\0" + b"".join(sorted(records[row] for row in order[start:end])))
            for name, (start, end) in zip(self._names, pairwise(self._bounds.tolist()), strict=True)
        )
        return hashlib.sha256(b"persons\n" + b"".join(persons)).hexdigest()

    def record_digests(self) -> list[bytes]:
        """See `TensorData.record_digests`."""
        return self.records.record_digests()

    def person_digests(self) -> list[bytes]:
        """SHA-256 of every person's id."""
        return digests_of_names(self.records.groups)

    @property
    def read(self) -> FilesRead | None:
        """See `TensorData`."""
        return self.records.read

    @cached_property
    def _names(self) -> list[str]:
        return sorted(set(self.records.groups))

    @cached_property
    def _numbers(self) -> NDArray[np.int64]:
        """(n,) the person of each record."""
        place = {name: number for number, name in enumerate(self._names)}
        return np.array([place[name] for name in self.records.groups], dtype=np.int64)

    @cached_property
    def _order(self) -> Tensor:
        """(n,) the records, person by person, each person's in the order of the data."""
        return torch.from_numpy(np.argsort(self._numbers, kind="stable"))

    @cached_property
    def _bounds(self) -> Tensor:
        """(persons + 1,): person k has records bounds[k] to bounds[k + 1] in that order."""
        counts = np.bincount(self._numbers, minlength=len(self._names))
        return torch.from_numpy(np.concatenate([[0], np.cumsum(counts)]).astype(np.int64))

    def _rows(self, persons: Tensor) -> tuple[Tensor, Tensor]:
        """(b, most) row numbers of the persons' records, and the weight of each."""
        starts = self._bounds[persons]
        counted = (self._bounds[persons + 1] - starts).clamp(max=self.most)[:, None]
        places = torch.arange(self.most).expand(len(persons), -1)
        there = places < counted
        places = torch.where(there, places, 0)
        rows = self._order[starts[:, None] + places]
        return rows, there.float() / counted


Examples = TensorData | PersonData  # what a trainer samples from


def by_unit(data: TensorData, settings: DataSettings) -> Examples:
    """The examples of the settings' unit; DataError if it is a person and the data have no person ids."""
    if settings.unit == RECORD:
        return data
    if data.grouped_by and data.grouped_by != settings.person_column:
        raise DataError(
            f"unit = {settings.unit!r}: the records are grouped by {data.grouped_by!r}; write "
            f"person:{data.grouped_by}."
        )
    return PersonData(data, settings.records_per_person)


def digests_of_names(names: Iterable[str]) -> list[bytes]:
    """SHA-256 of each distinct name."""
    return [_sha256(name.encode()) for name in sorted(set(names))]


def _sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()
