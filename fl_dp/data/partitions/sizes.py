"""Client sizes from `partition-sizes`; records beyond their sum are unused."""

from collections.abc import Sequence

from fl_dp.data.flwr_partitioners import partitioners, split_by
from fl_dp.data.partition_scheme import Indices, Labels, Partition, PartitionSettings
from fl_dp.data.sizes import check_sizes, check_sum, parse_sizes


def split(labels: Labels, settings: PartitionSettings) -> Sequence[Indices]:
    sizes = parse_sizes(settings.sizes)
    check_sum(sizes, len(labels))
    partitioner = partitioners().SizePartitioner(list(sizes))
    return split_by(partitioner, labels[: sum(sizes)], settings.number)


PARTITION = Partition(
    split,
    parameter=lambda settings: settings.sizes.replace(" ", ""),
    check=check_sizes,
    labels="any",
)
