"""How a data set is split into clients' parts: the schemes, each a row of the table at the end.

Their names and parameters are part of data set names in ledgers: neither may change later.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fl_dp.data.flwr_partitioners import partitioners, split_by
from fl_dp.data.partition_scheme import Indices, Labels, Partition, PartitionSettings, number_in
from fl_dp.errors import ConfigError, DataError

Parts = Sequence[Indices]


def _by_flwr(made: Callable[[Any, PartitionSettings], Any]) -> Callable[[Labels, PartitionSettings], Parts]:
    """A split by one of flwr's partitioners, which `made` makes from their module."""
    return lambda labels, settings: split_by(made(partitioners(), settings), labels, settings.number)


def _whole_number(settings: PartitionSettings, of: str, example: str) -> int:
    """The argument; ConfigError unless it is an integer >= 1."""
    number = number_in(settings, f"a number of {of} >= 1, as in {example}", 1, 10**6)
    if number != int(number):
        raise ConfigError(f"partition = {settings.scheme!r}: expected a whole number of {of}.")
    return int(number)


def _shards_each(settings: PartitionSettings) -> int:
    return _whole_number(settings, "shards", "shards:2")


def _classes_each(settings: PartitionSettings) -> int:
    return _whole_number(settings, "classes", "pathological:2")


def _alpha(settings: PartitionSettings) -> float:
    return number_in(settings, "an alpha from 1e-6 to 1e9, as in dirichlet:0.5", 1e-6, 1e9)


def _shards(labels: Labels, settings: PartitionSettings) -> Parts:
    each = _shards_each(settings)
    if settings.number * each > len(labels):
        raise ValueError("a shard without records")
    partitioner = partitioners().ShardPartitioner(
        settings.number, "label", num_shards_per_partition=each, seed=settings.seed
    )
    return split_by(partitioner, labels, settings.number)


def _strictness(settings: PartitionSettings) -> float:
    return number_in(settings, "a strictness from 0 to 1, as in continuous:0.5", 0, 1)


def _sizes_of(settings: PartitionSettings) -> list[int]:
    """The sizes at the argument's end; ConfigError unless each client has one, of at least 1."""
    text = f"partition = {settings.scheme!r}"
    try:
        sizes = [int(part) for part in settings.argument.rpartition(":")[2].split(",")]
    except ValueError:
        raise ConfigError(f"{text}: expected sizes as in sizes:100,50.") from None
    if min(sizes) < 1:
        raise ConfigError(f"{text}: every part needs at least one record.")
    if len(sizes) != settings.number:
        raise ConfigError(f"{text}: expected one size for each client, clients = {settings.number}.")
    return sizes


def _sizes_within(labels: Labels, settings: PartitionSettings) -> list[int]:
    """Those sizes; DataError if there are fewer records than their sum."""
    sizes = _sizes_of(settings)
    if sum(sizes) > len(labels):
        raise DataError(
            f"partition = {settings.scheme!r}: the sizes add up to {sum(sizes)}, the data have "
            f"{len(labels)} records."
        )
    return sizes


def _sizes(labels: Labels, settings: PartitionSettings) -> Parts:
    sizes = _sizes_within(labels, settings)
    return split_by(partitioners().SizePartitioner(sizes), labels[: sum(sizes)], settings.number)


def _inner_dirichlet(labels: Labels, settings: PartitionSettings) -> Parts:
    sizes = _sizes_within(labels, settings)
    _, places = np.unique(labels, return_inverse=True)  # flwr's takes labels 0, 1, ... without gaps
    partitioner = partitioners().InnerDirichletPartitioner(
        sizes, "label", _alpha(settings), seed=settings.seed
    )
    return split_by(partitioner, places, settings.number)


def _in_words(sizes: list[int]) -> str:
    return ",".join(map(str, sizes))


def _by(groups: Labels, settings: PartitionSettings) -> Parts:
    """The rows of each client's groups; numbers of groups differ by at most one."""
    count = int(groups.max()) + 1
    if settings.number > count:
        raise DataError(
            f"partition = {settings.scheme!r}: there are {count} groups, too few for {settings.number} "
            f"clients; set clients = {count} for one group each, or fewer for several groups each."
        )
    order = np.arange(count)
    if settings.number < count:
        order = np.random.default_rng(settings.seed).permutation(count)
    return [np.flatnonzero(np.isin(groups, dealt)) for dealt in np.array_split(order, settings.number)]


CHOICES = {
    # equal shares, drawn uniformly
    "iid": Partition(
        _by_flwr(lambda flwr, one: flwr.IidPartitioner(one.number)), one_is_all=True, labels="any"
    ),
    # sizes in the ratio 1 : 2 : 3 ..., 1 : 4 : 9 ..., and e : e^2 : e^3 ..., drawn uniformly; with the last,
    # most clients get almost nothing
    "linear": Partition(_by_flwr(lambda flwr, one: flwr.LinearPartitioner(one.number)), labels="any"),
    "square": Partition(_by_flwr(lambda flwr, one: flwr.SquarePartitioner(one.number)), labels="any"),
    "exponential": Partition(
        _by_flwr(lambda flwr, one: flwr.ExponentialPartitioner(one.number)), labels="any"
    ),
    # `dirichlet:ALPHA`: a share of each class, drawn from Dirichlet(alpha): the smaller, the more uneven
    # the parts. Yurochkin et al. 2019, arXiv 1905.12022.
    "dirichlet": Partition(
        _by_flwr(
            lambda flwr, one: flwr.DirichletPartitioner(
                one.number, "label", _alpha(one), min_partition_size=1, seed=one.seed
            )
        ),
        remedy="a larger alpha or fewer clients",
        parameter=lambda settings: repr(_alpha(settings)),
        check=_alpha,
        argument="ALPHA",
    ),
    # `pathological:N`: N classes per client and no others; with few clients some classes are unused.
    # McMahan et al. 2017, arXiv 1602.05629.
    "pathological": Partition(
        _by_flwr(
            lambda flwr, one: flwr.PathologicalPartitioner(
                one.number,
                "label",
                _classes_each(one),
                class_assignment_mode="first-deterministic",  # leaves the fewest classes unused
                seed=one.seed,
            )
        ),
        remedy="fewer classes or clients",
        parameter=lambda settings: str(_classes_each(settings)),
        check=_classes_each,
        argument="N",
    ),
    # `shards:N`: sorted by label and cut into equal shards, N for each client; the rest is unused.
    # McMahan et al. 2017, arXiv 1602.05629, section 3, where N is 2.
    "shards": Partition(_shards, remedy="fewer shards or clients", check=_shards_each, argument="N"),
    # `continuous:STRICTNESS`: by a numeric target; 0 is as iid, 1 is sorted and cut into parts. Each record's
    # standardised number and noise of deviation 1 are mixed in that ratio, and sorted.
    "continuous": Partition(
        _by_flwr(
            lambda flwr, one: flwr.ContinuousPartitioner(one.number, "label", _strictness(one), seed=one.seed)
        ),
        remedy="fewer clients, or iid where all targets are alike",
        check=_strictness,
        argument="STRICTNESS",
        labels="number",
    ),
    # `sizes:SIZE,SIZE`: one for each client; records beyond their sum are unused
    "sizes": Partition(
        _sizes,
        parameter=lambda settings: _in_words(_sizes_of(settings)),
        check=_sizes_of,
        argument="SIZE,SIZE",
        labels="any",
    ),
    # `inner_dirichlet:ALPHA:SIZE,SIZE`: the same, with class shares drawn from Dirichlet(alpha). Acar et al.
    # 2021, "Federated Learning Based on Dynamic Regularization", arXiv 2111.04263.
    "inner_dirichlet": Partition(
        _inner_dirichlet,
        remedy="a larger alpha or smaller sizes",
        parameter=lambda settings: f"{_alpha(settings)!r} {_in_words(_sizes_of(settings))}",
        check=lambda settings: (_alpha(settings), _sizes_of(settings)),
        argument="ALPHA:SIZE,SIZE",
    ),
    # By a column, so that all records of a person or hospital are at one client. With as many clients as
    # groups, client k has group k, sorted by name, as in flwr_datasets' NaturalIdPartitioner. With
    # fewer, each has several groups, drawn by the seed, as in its GroupedNaturalIdPartitioner. Unlike there,
    # the number of clients is given.
    "by": Partition(_by, by="groups", argument="COLUMN"),
}
