"""A client's data as its ledger knows them: one account for each data set, or for each part of one."""

from typing import TYPE_CHECKING

from fl_dp.config.client import ClientConfig
from fl_dp.config.flat import AUTO

if TYPE_CHECKING:
    from fl_dp.accounting.ledger.ledger import Ledger, Registration
    from fl_dp.data.tensor_data import TensorData


def enrol(ledger: "Ledger", data: "TensorData", config: ClientConfig) -> int:
    """Enter the client's data in its ledger, and return their declared number of records, as entered first.

    LedgerError where their spending would start at zero although it did not: see `Ledger.register_all`.
    """
    return ledger.register_all([enrolment(data, config)])[0]


def enrolment(data: "TensorData", config: ClientConfig) -> "Registration":
    """The client's data as its ledger is to enter them, on their first use."""
    from fl_dp.accounting.ledger.ledger import Registration

    return Registration(
        dataset_name(config),
        data.fingerprint(),
        len(data) if config.public_size == AUTO else int(config.public_size),
        source=config.data,
        cut=_cut(config),
        digests=data.record_digests,
    )


def dataset_name(config: ClientConfig) -> str:
    """The name of the client's data in its ledger: `digits`, or `digits, part 0/2 (iid, seed 0)`."""
    if _is_whole(config):
        return config.data
    return f"{config.data}, part {config.partition_id}/{config.num_partitions} ({_rule(config)})"


def _cut(config: ClientConfig) -> str:
    """All that decides which record is in which part; empty: all are in one."""
    return "" if _is_whole(config) else f"{config.num_partitions} parts ({_rule(config)})"


def _is_whole(config: ClientConfig) -> bool:
    return config.partition == "iid" and config.num_partitions == 1


def _rule(config: ClientConfig) -> str:
    """Scheme, its parameter if it has one, and seed; in full, so that two rules never look alike."""
    parameters = {
        "dirichlet": f" {config.partition_alpha!r}",
        "pathological": f" {config.partition_classes}",
        "sizes": f" {config.partition_sizes.replace(' ', '')}",
    }
    return f"{config.partition}{parameters.get(config.partition, '')}, seed {config.seed}"
