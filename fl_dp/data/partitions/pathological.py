"""`partition-classes` classes per client and no others; with few clients some classes are unused.

McMahan et al. 2017, arXiv 1602.05629.
"""

from collections.abc import Sequence

from fl_dp.data.flwr_partitioners import partitioners, split_by
from fl_dp.data.partition_scheme import Indices, Labels, Partition, PartitionSettings


def split(labels: Labels, settings: PartitionSettings) -> Sequence[Indices]:
    partitioner = partitioners().PathologicalPartitioner(
        settings.number,
        "label",
        settings.classes,
        class_assignment_mode="first-deterministic",  # leaves the fewest classes unused
        seed=settings.seed,
    )
    return split_by(partitioner, labels, settings.number)


PARTITION = Partition(
    split,
    remedy="a smaller partition-classes or fewer clients",
    parameter=lambda settings: str(settings.classes),
)
