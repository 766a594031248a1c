"""The setting `partition-sizes`: how many records each client has."""

from collections.abc import Sequence

from fl_dp.data.partition_scheme import PartitionSettings
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


def check_sizes(settings: PartitionSettings) -> None:
    """Raise ConfigError unless there is a size for each client."""
    if len(parse_sizes(settings.sizes)) != settings.number:
        raise ConfigError(
            f"partition-sizes = {settings.sizes!r}: expected as many sizes as clients = {settings.number}."
        )


def check_sum(sizes: Sequence[int], records: int) -> None:
    """Raise DataError if there are fewer records than the sum of the sizes."""
    if sum(sizes) > records:
        raise DataError(f"partition-sizes: they add up to {sum(sizes)}, the data have {records} records.")
