"""Which records: a data set, and how it is split into parts. Server and clients say it in the same keys."""

from dataclasses import dataclass

from fl_dp.choices import PARTITIONS
from fl_dp.config.flat import FlatConfig, require, require_positive


@dataclass(frozen=True, kw_only=True)
class DataSettings(FlatConfig):
    """README.md explains every key. seed: of the partition, and in a run also of the first weights.

    data_name: of the data in ledgers, where it is not that of `data`: a file may be moved and keep it.
    schema: the file that says what a table's columns are; empty: the one beside the table.
    """

    data: str = "digits"
    data_name: str = ""
    data_root: str = "data"
    schema: str = ""
    partition: str = "iid"
    partition_alpha: float = 0.5
    partition_classes: int = 2
    partition_sizes: str = ""
    seed: int = 0

    def __post_init__(self) -> None:
        PARTITIONS.check(self.partition)
        require_positive(self, "partition_alpha")
        require(self.partition_classes >= 1, "partition-classes", self.partition_classes, "an integer >= 1")
        require(self.seed >= 0, "seed", self.seed, "an integer >= 0")
