"""`shards:N`: sorted by label and cut into equal shards, N for each client; the rest is unused.

McMahan et al. 2017, arXiv 1602.05629, section 3, where N is 2.
"""

from collections.abc import Sequence

from fl_dp.data.flwr_partitioners import partitioners, split_by
from fl_dp.data.partition_scheme import Indices, Labels, Partition, PartitionSettings, number_in
from fl_dp.errors import ConfigError


def shards_each(settings: PartitionSettings) -> int:
    """N of `shards:N`; ConfigError unless it is an integer >= 1."""
    number = number_in(settings, "a number of shards >= 1, as in shards:2", 1)
    if number != int(number):
        raise ConfigError(f"partition = {settings.scheme!r}: expected a whole number of shards.")
    return int(number)


def check(settings: PartitionSettings) -> None:
    shards_each(settings)


def split(labels: Labels, settings: PartitionSettings) -> Sequence[Indices]:
    if settings.number * shards_each(settings) > len(labels):
        raise ValueError("a shard without records")
    partitioner = partitioners().ShardPartitioner(
        settings.number, "label", num_shards_per_partition=shards_each(settings), seed=settings.seed
    )
    return split_by(partitioner, labels, settings.number)


PARTITION = Partition(split, remedy="fewer shards or clients", check=check, argument="N")
