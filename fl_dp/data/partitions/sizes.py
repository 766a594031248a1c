"""As many records for each client as `partition-sizes` says; records beyond their sum go unused."""

from collections.abc import Sequence

from fl_dp.data.flwr_partitioners import partitioners, split_by
from fl_dp.data.partition_scheme import Indices, Labels, Partition, PartitionSettings
from fl_dp.errors import ConfigError, DataError


def parse_sizes(text: str) -> tuple[int, ...]:
    """'100,50,25' as (100, 50, 25); each at least 1, else ConfigError."""
    try:
        sizes = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ConfigError(f"partition-sizes = {text!r}: expected sizes as in '100,50'.") from None
    if min(sizes) < 1:
        raise ConfigError(f"partition-sizes = {text!r}: every part needs at least one record.")
    return sizes


def check(settings: PartitionSettings) -> None:
    """ConfigError unless there is a size for each client."""
    if len(parse_sizes(settings.sizes)) != settings.number:
        raise ConfigError(
            f"partition-sizes = {settings.sizes!r}: expected as many sizes as clients = {settings.number}."
        )


def split(labels: Labels, settings: PartitionSettings) -> Sequence[Indices]:
    sizes = parse_sizes(settings.sizes)
    total = sum(sizes)
    if total > len(labels):
        raise DataError(f"partition-sizes: they add up to {total}, the data have {len(labels)} records.")
    return split_by(partitioners().SizePartitioner(list(sizes)), labels[:total], settings.number)


PARTITION = Partition(
    split,
    parameter=lambda settings: settings.sizes.replace(" ", ""),
    check=check,
)
