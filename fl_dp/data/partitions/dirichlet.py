"""A share of each class, drawn from Dirichlet(alpha): the smaller alpha, the more uneven the parts.

Yurochkin et al. 2019, arXiv 1905.12022.
"""

from collections.abc import Sequence

from fl_dp.data.flwr_partitioners import partitioners, split_by
from fl_dp.data.partition_scheme import Indices, Labels, Partition, PartitionSettings


def split(labels: Labels, settings: PartitionSettings) -> Sequence[Indices]:
    partitioner = partitioners().DirichletPartitioner(
        settings.number, "label", settings.alpha, min_partition_size=1, seed=settings.seed
    )
    return split_by(partitioner, labels, settings.number)


PARTITION = Partition(
    split,
    remedy="a larger partition-alpha or fewer clients",
    parameter=lambda settings: repr(settings.alpha),
)
