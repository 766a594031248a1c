"""Subgroups in an .npz file: `subgroup_NAME` names them, `subgroup_NAME_test` has each record's index."""

import re
from collections.abc import Collection, Mapping

import numpy as np
import torch

from fl_dp.data.npz_files import Arrays
from fl_dp.data.subgroups import Subgroups
from fl_dp.data.tensor_data import Split
from fl_dp.errors import DataError

PREFIX = "subgroup_"
_CODES = re.compile(rf"{PREFIX}(.+)_(?:train|test)")
_NAMES = re.compile(rf"{PREFIX}(.+)")


def is_of_subgroups(array: str) -> bool:
    """Whether an array of this name belongs to subgroups."""
    return _NAMES.fullmatch(array) is not None


def subgroup_arrays(there: Collection[str], split: Split) -> set[str]:
    """The file's arrays to read for subgroups: none for training.

    DataError unless names and test records' indices come in pairs.
    """
    found = [name for name in there if is_of_subgroups(name)]
    coded = {match[1] for name in found if (match := _CODES.fullmatch(name))}
    named = {match[1] for name in found if not _CODES.fullmatch(name) and (match := _NAMES.fullmatch(name))}
    if split == "train":
        return set()
    if alone := sorted(coded - named):
        raise DataError(
            f"subgroup_{alone[0]}_test: expected the array subgroup_{alone[0]} beside it, the names of the "
            "subgroups: they are public, and never counted in records."
        )
    wanted = {f"{PREFIX}{name}_test" for name in named}
    if missing := sorted(wanted - set(found)):
        raise DataError(
            f"expected the array {missing[0]}, of each test record the place of its subgroup in "
            f"{missing[0].removesuffix('_test')}."
        )
    return wanted | {f"{PREFIX}{name}" for name in named}


def subgroups_of(arrays: Mapping[str, np.ndarray] | Arrays) -> tuple[Subgroups, ...]:
    """Subgroups of the test records, sorted by name."""
    found = sorted(match[1] for name in arrays if (match := _CODES.fullmatch(name)))
    return tuple(_one(name, arrays[f"{PREFIX}{name}"], arrays[f"{PREFIX}{name}_test"]) for name in found)


def _one(name: str, labels: np.ndarray, codes: np.ndarray) -> Subgroups:
    if labels.dtype.kind not in "Uiu" or labels.ndim != 1 or not len(labels):
        raise DataError(
            f"{PREFIX}{name}: expected names of subgroups (k,), not {labels.dtype} of shape {labels.shape}."
        )
    if codes.dtype.kind not in "iu" or codes.ndim != 1:
        raise DataError(
            f"{PREFIX}{name}_test: expected integers (n,), each record's place in {PREFIX}{name} from 0, not "
            f"{codes.dtype} of shape {codes.shape}."
        )
    return Subgroups(name, tuple(map(str, labels.tolist())), torch.from_numpy(codes.astype(np.int64)))
