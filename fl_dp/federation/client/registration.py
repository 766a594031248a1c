"""A client's data as its ledger knows them: one account for each data set, or for each part of one."""

from typing import TYPE_CHECKING

from fl_dp.config.client import ClientConfig
from fl_dp.config.flat import AUTO
from fl_dp.data.partition_scheme import PartitionSettings, is_whole, rule_of

if TYPE_CHECKING:
    from fl_dp.accounting.ledger.ledger import DataDeclaration
    from fl_dp.data.tensor_data import TensorData


def registration_of(data: "TensorData", config: ClientConfig) -> "DataDeclaration":
    """The client's data as they are entered in its ledger on their first use."""
    from fl_dp.accounting.ledger.ledger import DataDeclaration

    return DataDeclaration(
        dataset_name(config),
        data.fingerprint(),
        len(data) if config.public_size == AUTO else int(config.public_size),
        source=config.data,
        cut=_cut(config),
        digests=data.record_digests,
    )


def dataset_name(config: ClientConfig) -> str:
    """The name of the client's data in its ledger: `digits`, or `digits, part 0/2 (iid, seed 0)`."""
    settings = PartitionSettings.of(config)
    if is_whole(settings):
        return config.data
    return f"{config.data}, part {config.partition_id}/{config.num_partitions} ({rule_of(settings)})"


def _cut(config: ClientConfig) -> str:
    """All that decides which record is in which part; empty: all are in one."""
    settings = PartitionSettings.of(config)
    return "" if is_whole(settings) else f"{config.num_partitions} parts ({rule_of(settings)})"
