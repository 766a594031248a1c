"""Which record belongs to which client: flwr-datasets' partitioners over labels in memory."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fl_dp.config.client import ClientConfig
from fl_dp.config.run import PARTITIONS, RunConfig, parse_sizes
from fl_dp.data.flwr_partitioners import LabelDataSet, partitioners
from fl_dp.data.source import load_data
from fl_dp.data.tensor_data import TensorData
from fl_dp.errors import ConfigError, DataError

Indices = NDArray[np.int64]

_REMEDIES = {
    "iid": "fewer clients",
    "dirichlet": "a larger partition-alpha or fewer clients",
    "pathological": "a smaller partition-classes or fewer clients",
    "sizes": "sizes of at least 1",
}

# Both are said better elsewhere: the first by the DataError that follows, the second by our docstring.
_EXPECTED_WARNINGS = ("The specified min_partition_size", "Classes: .* will NOT be used")


def load_part(config: ClientConfig) -> TensorData:
    """The client's own part of the training split.

    Data set and partition are kept per process, so that a process which simulates many clients
    reads and cuts once.
    """
    if config.partition == "iid" and config.num_partitions == 1:
        return load_data(config.data, Path(config.data_root), "train")  # everything: no copy
    train, parts = load_parts(config)
    return train.subset(torch.from_numpy(parts[config.partition_id]))


def load_parts(config: ClientConfig | RunConfig) -> tuple[TensorData, Sequence[Indices]]:
    """The training split, and the indices of every client's part of it."""
    train = load_data(config.data, Path(config.data_root), "train")
    number = config.num_partitions if isinstance(config, ClientConfig) else config.clients
    parts = _parts(
        train, number, config.partition, config.seed,
        config.partition_alpha, config.partition_classes, config.partition_sizes,
    )  # fmt: skip
    return train, parts


@lru_cache(maxsize=1)
def _parts(
    train: TensorData, num_partitions: int, scheme: str, seed: int, alpha: float, classes: int, sizes: str
) -> list[Indices]:
    return partition_indices(
        train.y.numpy(),
        num_partitions,
        scheme,
        seed=seed,
        alpha=alpha,
        classes_per_partition=classes,
        sizes=parse_sizes(sizes) if scheme == "sizes" else (),
    )


def partition_indices(
    labels: Indices,
    num_partitions: int,
    scheme: str,
    *,
    seed: int,
    alpha: float = 0.5,
    classes_per_partition: int = 2,
    sizes: Sequence[int] = (),
) -> list[Indices]:
    """Disjoint parts of range(len(labels)), each sorted and not empty; a function of the arguments alone.

    | scheme         | a part                                                                          |
    |----------------|---------------------------------------------------------------------------------|
    | `iid`          | an equal share, drawn uniformly                                                 |
    | `dirichlet`    | of each class a share drawn from Dirichlet(alpha): the smaller, the more uneven |
    | `pathological` | `classes_per_partition` classes only; with few parts some classes go unused     |
    | `sizes`        | as many records as `sizes` says; records beyond their sum go unused             |

    Raises DataError when the labels cannot be parted so, ConfigError for a scheme that is not there.
    """
    if scheme not in PARTITIONS:
        raise ConfigError(f"partition = {scheme!r}: expected {' or '.join(PARTITIONS)}.")
    if scheme == "iid" and num_partitions == 1:
        return [np.arange(len(labels))]
    if num_partitions > len(labels):
        raise DataError(f"{len(labels)} records cannot be parted among {num_partitions} clients.")
    if seed < 0:
        raise ConfigError(f"Expected seed={seed} >= 0.")
    order = np.random.default_rng(seed).permutation(len(labels))
    if scheme == "sizes":
        order = order[: _checked_total(sizes, num_partitions, len(labels))]
    with _quiet():
        try:
            partitioner = _partitioner(scheme, num_partitions, seed, alpha, classes_per_partition, sizes)
            return _cut(partitioner, order, labels[order], num_partitions)
        except ValueError:  # its text counts records per class, which must not leave the client
            raise DataError(
                f"partition = {scheme!r}: {len(labels)} records cannot be parted so among "
                f"{num_partitions} clients; try {_REMEDIES[scheme]}."
            ) from None


def _checked_total(sizes: Sequence[int], num_partitions: int, num_records: int) -> int:
    if len(sizes) != num_partitions:
        raise ConfigError(
            f"partition-sizes: expected {num_partitions} sizes, one a client, not {len(sizes)}."
        )
    if sum(sizes) > num_records:
        raise DataError(f"partition-sizes: they add up to {sum(sizes)}, the data have {num_records} records.")
    return sum(sizes)


def _partitioner(
    scheme: str,
    num_partitions: int,
    seed: int,
    alpha: float,
    classes_per_partition: int,
    sizes: Sequence[int],
) -> Any:
    flwr = partitioners()
    match scheme:
        case "iid":
            return flwr.IidPartitioner(num_partitions)
        case "dirichlet":
            return flwr.DirichletPartitioner(num_partitions, "label", alpha, min_partition_size=1, seed=seed)
        case "pathological":
            return flwr.PathologicalPartitioner(
                num_partitions,
                "label",
                classes_per_partition,
                class_assignment_mode="first-deterministic",  # leaves the fewest classes unused
                seed=seed,
            )
    return flwr.SizePartitioner(list(sizes))  # the last of PARTITIONS


def _cut(partitioner: Any, order: Indices, labels: Indices, num_partitions: int) -> list[Indices]:
    """Parts of `order`, whose labels are `labels`, sorted: a part's fingerprint is that of a set."""
    partitioner.dataset = LabelDataSet(labels)
    parts = [np.sort(order[partitioner.load_partition(part)]) for part in range(num_partitions)]
    if not all(len(part) for part in parts):
        raise ValueError("a part without records")
    return parts


@contextmanager
def _quiet() -> Iterator[None]:
    """No warnings that say what our errors say."""
    with warnings.catch_warnings():
        for message in _EXPECTED_WARNINGS:
            warnings.filterwarnings("ignore", message)
        yield
