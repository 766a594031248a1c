"""The subgroup of each record: results are reported for each subgroup. Their names are declared publicly."""

import dataclasses
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from fl_dp.errors import DataError

OTHER = "other"  # for records in none of the declared subgroups


@dataclass(frozen=True, slots=True, eq=False)
class Subgroups:
    """One way to divide records, such as by sex.

    Args:
        name: Name of the column or array.
        labels: Labels of the subgroups, declared and never counted in records.
        codes: int64 (n,), each record's index in `labels`.

    Example:
        >>> import fl_dp, torch
        >>> sex = fl_dp.Subgroups("sex", ("women", "men"), torch.tensor([0, 1, 1]))
        >>> sex.full_names, sex.at(torch.tensor([1, 2])).codes.tolist()
        (('sex = women', 'sex = men'), [1, 1])
    """

    name: str
    labels: tuple[str, ...]
    codes: Tensor

    def at(self, indices: Tensor) -> Self:
        """Those of the records at int64 `indices`."""
        return dataclasses.replace(self, codes=self.codes[indices])

    @property
    def full_names(self) -> tuple[str, ...]:
        """Each label as reports write it: "sex = women"."""
        return tuple(f"{self.name} = {label}" for label in self.labels)


def check_subgroups(found: Sequence[Subgroups], records: int) -> None:
    """Raise DataError unless each is for that many records and has its own name in reports."""
    for one in found:
        if one.codes.dtype != torch.int64 or tuple(one.codes.shape) != (records,):
            raise DataError(
                f"subgroups of {one.name!r}: expected int64 codes of {records} records, not "
                f"{one.codes.dtype} of shape {tuple(one.codes.shape)}."
            )
        if records and not 0 <= int(one.codes.min()) <= int(one.codes.max()) < len(one.labels):
            raise DataError(
                f"subgroups of {one.name!r}: expected every code in 0 to {len(one.labels) - 1}, the indices "
                "of their names: some are not."
            )
    names = Counter(name for one in found for name in one.full_names)
    if twice := next((name for name, times in names.items() if times > 1), None):
        raise DataError(f"subgroup {twice!r}: is declared twice; give one another name.")
