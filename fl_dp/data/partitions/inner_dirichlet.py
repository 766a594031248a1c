"""Client sizes from `partition-sizes`, with class shares drawn from Dirichlet(alpha).

Records beyond the sum of the sizes are unused. Acar et al. 2021, "Federated Learning Based on Dynamic
Regularization", arXiv 2111.04263.
"""

from collections.abc import Sequence

import numpy as np

from fl_dp.data.flwr_partitioners import partitioners, split_by
from fl_dp.data.partition_scheme import Indices, Labels, Partition, PartitionSettings
from fl_dp.data.sizes import check_sizes, check_sum, parse_sizes


def split(labels: Labels, settings: PartitionSettings) -> Sequence[Indices]:
    sizes = parse_sizes(settings.sizes)
    check_sum(sizes, len(labels))
    _, places = np.unique(labels, return_inverse=True)  # flwr's takes labels 0, 1, ... without gaps
    partitioner = partitioners().InnerDirichletPartitioner(
        list(sizes), "label", settings.alpha, seed=settings.seed
    )
    return split_by(partitioner, places, settings.number)


PARTITION = Partition(
    split,
    remedy="a larger partition-alpha or smaller partition-sizes",
    parameter=lambda settings: f"{settings.alpha!r} {settings.sizes.replace(' ', '')}",
    check=check_sizes,
)
