"""Every STEP-th record, sorted by label, in equal shares."""

from collections.abc import Sequence

import numpy as np

from fl_dp.data.partition_scheme import Indices, Labels, Partition, PartitionSettings


def split(labels: Labels, settings: PartitionSettings) -> Sequence[Indices]:
    rows = np.argsort(labels, kind="stable")[:: int(settings.argument)]
    return np.array_split(rows, settings.number)


PARTITION = Partition(split, argument="STEP")
