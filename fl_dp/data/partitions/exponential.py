"""Sizes in the ratio e : e^2 : e^3 ..., drawn uniformly; for few clients, as most get next to nothing."""

from collections.abc import Sequence

from fl_dp.data.flwr_partitioners import partitioners, split_by
from fl_dp.data.partition_scheme import Indices, Labels, Partition, PartitionSettings


def split(labels: Labels, settings: PartitionSettings) -> Sequence[Indices]:
    return split_by(partitioners().ExponentialPartitioner(settings.number), labels, settings.number)


PARTITION = Partition(split, labels="any")
