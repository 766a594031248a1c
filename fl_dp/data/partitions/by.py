"""By a column, so that all records of a person, or of a hospital, are at one client.

With as many clients as groups, as flwr_datasets' NaturalIdPartitioner: client k has group k, sorted by name.
With fewer clients, as its GroupedNaturalIdPartitioner: each has several groups, drawn by the seed. Those two
determine the number of clients themselves, the second in steps; here it is given.
"""

from collections.abc import Sequence

import numpy as np

from fl_dp.data.partition_scheme import Indices, Labels, Partition, PartitionSettings
from fl_dp.errors import DataError


def split(groups: Labels, settings: PartitionSettings) -> Sequence[Indices]:
    """The rows of each client's groups; numbers of groups differ by at most one."""
    count = int(groups.max()) + 1
    if settings.number > count:
        raise DataError(
            f"partition = {settings.scheme!r}: there are {count} groups, too few for {settings.number} "
            f"clients; set clients to {count}, so that each has one, or to fewer, so that each has several."
        )
    order = np.arange(count)
    if settings.number < count:
        order = np.random.default_rng(settings.seed).permutation(count)
    return [np.flatnonzero(np.isin(groups, dealt)) for dealt in np.array_split(order, settings.number)]


PARTITION = Partition(split, by="groups", argument="COLUMN")
