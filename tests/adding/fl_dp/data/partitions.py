"""Added to the partitions."""

from collections.abc import Sequence

import numpy as np

from fl_dp.data.partition_scheme import Indices, Labels, Partition, PartitionSettings


def _by_label(labels: Labels, settings: PartitionSettings) -> Sequence[Indices]:
    rows = np.argsort(labels, kind="stable")[:: int(settings.argument)]
    return np.array_split(rows, settings.number)


CHOICES = {
    # every STEP-th record, sorted by label, in equal shares
    "by_label": Partition(_by_label, argument="STEP"),
}
