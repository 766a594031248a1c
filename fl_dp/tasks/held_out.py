"""A site's own test records: never trained, and the same in all runs.

If `test` is a share, a keyed hash decides for each unit by itself: of a person's id, or of a record's
content, so that equal records are on one side. No unit moves another: of neighbouring data one half is the
same, and the other half is neighbouring. A split by count, by stratum or by chance would not have this
property. The ledger holds the key, enters both halves as parts of one split, and refuses another split.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.config.client import ClientConfig
from fl_dp.config.data import PERSON, DataSettings
from fl_dp.data.partition_scheme import Indices
from fl_dp.data.persons import Examples, by_unit
from fl_dp.data.stable_split import keyed_share
from fl_dp.data.tensor_data import TensorData

Sides = NDArray[np.bool_]
LoadHeldOut = Callable[[ClientConfig, bytes], "HeldOut"]


@dataclass(frozen=True)
class HeldOut:
    """The test records of one site. records: None if there are none; then all counts are zero.

    counted: those that count: at most the first `cap_of` of each person. None if records is.
    """

    records: Examples | None
    counted: TensorData | None

    @classmethod
    def of(cls, whole: TensorData, rows: Indices, settings: DataSettings) -> "HeldOut":
        """The records of `whole` at `rows`, of which there may be none."""
        if not len(rows):
            return cls(None, None)
        records = whole if len(rows) == len(whole) else whole.subset(torch.from_numpy(rows))
        return cls(by_unit(records, settings), _capped(records, settings))

    @property
    def units(self) -> int:
        return 0 if self.records is None else len(self.records)


def cap_of(settings: DataSettings) -> int:
    """How many records of a unit count at most. Public."""
    return settings.records_per_person if settings.unit_name == PERSON else 1


def are_test(records: TensorData, settings: DataSettings, key: bytes) -> Sides:
    """(n,) whether each record is for testing. key: the ledger's secret. DataError without persons' ids."""
    if settings.unit_name == PERSON:
        by_unit(records, settings)  # DataError without ids
        units: Sequence[bytes] = [name.encode() for name in records.groups]
    else:
        units = records.digests()
    return keyed_share(units, key, settings.test_share)


def split(records: TensorData, rows: Indices, settings: DataSettings, key: bytes) -> tuple[Indices, Indices]:
    """The rows for training and those for testing."""
    test = are_test(records.subset(torch.from_numpy(rows)), settings, key)
    return rows[~test], rows[test]


def split_key(settings: ClientConfig) -> bytes:
    """The key of the settings' ledger, which is created if it is missing."""
    with Ledger.open(Path(settings.ledger), one_run=settings.one_run_ledger) as ledger:
        return ledger.split_key()


def _capped(records: TensorData, settings: DataSettings) -> TensorData:
    """The first records of each person, as many as count; all records if the unit is the record."""
    if settings.unit_name != PERSON:
        return records
    seen: dict[str, int] = {}
    kept = []
    for row, name in enumerate(records.groups):
        seen[name] = seen.get(name, 0) + 1
        if seen[name] <= settings.records_per_person:
            kept.append(row)
    return records if len(kept) == len(records) else records.subset(torch.tensor(kept))
