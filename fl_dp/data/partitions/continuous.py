"""`continuous:STRICTNESS`: by a numeric target; 0 is as iid, 1 is sorted and cut into parts.

Each record's standardised number and noise of deviation 1 are mixed in that ratio, and sorted.
"""

from collections.abc import Sequence

from fl_dp.data.flwr_partitioners import partitioners, split_by
from fl_dp.data.partition_scheme import Indices, Labels, Partition, PartitionSettings, number_in


def strictness(settings: PartitionSettings) -> float:
    return number_in(settings, "a strictness from 0 to 1, as in continuous:0.5", 0, 1)


def check(settings: PartitionSettings) -> None:
    """Raise ConfigError for an invalid strictness."""
    strictness(settings)


def split(labels: Labels, settings: PartitionSettings) -> Sequence[Indices]:
    partitioner = partitioners().ContinuousPartitioner(
        settings.number, "label", strictness(settings), seed=settings.seed
    )
    return split_by(partitioner, labels, settings.number)


PARTITION = Partition(
    split,
    remedy="fewer clients, or iid where all targets are alike",
    check=check,
    argument="STRICTNESS",
    labels="number",
)
