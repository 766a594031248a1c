"""Assigns records to clients."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from fl_dp.data.partition_scheme import (
    Indices,
    Labels,
    Partition,
    PartitionSettings,
    choose_partition,
    is_whole,
)
from fl_dp.data.tensor_data import TensorData
from fl_dp.errors import DataError


@lru_cache(maxsize=1)
def parts_of(train: TensorData, settings: PartitionSettings) -> Sequence[Indices]:
    """The indices of every client's part; cached for the latest data and settings."""
    scheme = choose_partition(settings)
    if scheme.by == "groups":
        return partition_indices(_group_numbers(train, settings), settings)
    if settings.persons and not is_whole(settings):
        return _of_persons(train, scheme, settings)
    return partition_indices(train.y.numpy(), settings)


def _of_persons(train: TensorData, scheme: Partition, settings: PartitionSettings) -> list[Indices]:
    """Parts that keep each person whole: a person in two parts would have two budgets."""
    if scheme.labels != "any":
        raise DataError(
            f"partition = {settings.scheme!r} splits by each record's label, which would divide persons "
            "among clients. Use iid, or by:COLUMN."
        )
    persons, numbers = np.unique(np.array(train.groups), return_inverse=True)
    parts = partition_indices(np.zeros(len(persons), dtype=np.int64), settings)
    return [np.flatnonzero(np.isin(numbers, part)) for part in parts]


def partition_indices(labels: Labels, settings: PartitionSettings) -> list[Indices]:
    """Disjoint parts of range(len(labels)), each sorted and not empty; a function of the arguments alone.

    Raises DataError if the labels cannot be split in this way, ConfigError for a scheme that is not in
    partitions.py and for settings that it cannot use.
    """
    partition, number = choose_partition(settings), settings.number
    if is_whole(settings):
        return [np.arange(len(labels))]
    _check_kind(labels, partition, settings)
    if number > len(labels):
        raise DataError(f"{len(labels)} {_items(settings)} cannot be split among {number} clients.")
    order = np.random.default_rng(settings.seed).permutation(len(labels))
    try:
        parts = [np.sort(order[rows]) for rows in partition.split(labels[order], settings)]
        if not all(len(part) for part in parts):
            raise ValueError("a part without records")
    except ValueError:  # its text may count records of a class, which must not leave the client
        raise DataError(
            f"partition = {settings.scheme!r}: {len(labels)} {_items(settings)} cannot be split in this way "
            f"among {number} clients; try {partition.remedy}."
        ) from None
    _check_disjoint(parts, settings, len(labels))
    return parts


def _group_numbers(train: TensorData, settings: PartitionSettings) -> Labels:
    """(n,) the number of each record's site or group, by the column that the settings name."""
    named = [(train.sites, train.sites_by), (train.groups, train.grouped_by)]
    for names, column in named:
        if names and column in ("", settings.argument):
            numbers: Labels = np.unique(np.array(names), return_inverse=True)[1]
            return numbers
    known = [column for _, column in named if column]
    if not train.groups and not train.sites:
        raise DataError(
            f"partition = {settings.scheme!r}: the data have no groups. A table's schema declares them by a "
            'column of kind "group" or "site", an .npz file by the array groups_train, a task by '
            "TensorData.groups or TensorData.sites."
        )
    raise DataError(
        f"partition = {settings.scheme!r}: the records are grouped by {' and '.join(map(repr, known))}; "
        f"write {' or '.join(f'by:{one}' for one in known)}."
    )


def _items(settings: PartitionSettings) -> str:
    """What is split, in words: records, also if `by:COLUMN` keeps groups whole."""
    return "persons" if settings.persons and not settings.argument else "records"


def _check_kind(labels: Labels, partition: Partition, settings: PartitionSettings) -> None:
    """Raise DataError for labels that the scheme cannot split by; their dtype and shape are public."""
    found = "number" if labels.dtype.kind == "f" else "class"
    if partition.labels != "any" and (labels.ndim > 1 or found != partition.labels):
        wanted = "a class" if partition.labels == "class" else "a number"
        raise DataError(
            f"partition = {settings.scheme!r} splits by labels, {wanted} for each record; these are "
            f"{labels.dtype} of shape {labels.shape[1:]} each. Use iid. Convert one-hot labels to classes "
            "with y.argmax(1)."
        )


def _check_disjoint(parts: Sequence[Indices], settings: PartitionSettings, num_records: int) -> None:
    """Raise DataError for a record in two parts: each has its own budget, so the record would have two."""
    if len(parts) != settings.number:
        raise DataError(f"partition = {settings.scheme!r}: made {len(parts)} parts of {settings.number}.")
    used = np.zeros(num_records, dtype=bool)
    for part in parts:
        used[part] = True
    if np.count_nonzero(used) != sum(map(len, parts)):
        raise DataError(f"partition = {settings.scheme!r}: puts a record into the parts more than once.")
