"""Sizes in the ratio 1 : 4 : 9 ..., the squares, drawn uniformly."""

from collections.abc import Sequence

from fl_dp.data.flwr_partitioners import partitioners, split_by
from fl_dp.data.partition_scheme import Indices, Labels, Partition, PartitionSettings


def split(labels: Labels, settings: PartitionSettings) -> Sequence[Indices]:
    return split_by(partitioners().SquarePartitioner(settings.number), labels, settings.number)


PARTITION = Partition(split, labels="any")
