"""The descriptor of a partition scheme: a row of the table in partitions.py."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from fl_dp.choices import PARTITIONS
from fl_dp.config import flat
from fl_dp.config.client import ClientConfig
from fl_dp.config.data import RECORD
from fl_dp.config.run import RunConfig

Indices = NDArray[np.int64]
Labels = NDArray[Any]  # of a kind that the scheme declares
Kind = Literal["any", "class", "number"]


@dataclass(frozen=True, slots=True)
class PartitionSettings:
    """Everything but the data that decides which record is in which part.

    scheme: the setting `partition`, with its argument if any. number: of parts. persons: all records of a
    person, their group, must be in one part.
    """

    scheme: str
    number: int
    seed: int
    persons: bool = False

    @classmethod
    def of(cls, config: ClientConfig | RunConfig) -> Self:
        return cls(
            config.partition,
            config.num_partitions if isinstance(config, ClientConfig) else config.clients,
            config.seed,
            config.unit != RECORD,
        )

    @property
    def argument(self) -> str:
        return self.scheme.partition(":")[2]


@dataclass(frozen=True, slots=True)
class Partition:
    """A way to split a data set among clients.

    split: the parts, as row numbers of `labels`, one array for each of `settings.number` clients; no row in
    two parts, no part empty. The labels come in an order shuffled by the seed. A function of its arguments
    alone; ValueError if the labels cannot be split in this way.
    remedy: what to try then.
    parameter: the argument as data set names in ledgers write it, after the scheme's name; None: as the user
    wrote it, after a colon. Arguments that give other parts must differ in it, and it must never change for
    an argument that somebody has used.
    check: raises ConfigError for settings that are wrong for any data.
    by: what `split` is given: "labels", or "groups", the records' groups as numbers from 0, in the order of
    their names.
    one_is_all: a single part is the whole data set, and has the data set's own name in ledgers.
    argument: its name in errors, N of `shards:N`. None: there is none.
    labels: "class", one class per record; "number", one float; "any": labels do not matter.
    """

    split: Callable[[Labels, PartitionSettings], Sequence[Indices]]
    remedy: str = "fewer clients"
    parameter: Callable[[PartitionSettings], str] | None = None
    check: Callable[[PartitionSettings], object] = lambda settings: None
    by: Literal["labels", "groups"] = "labels"
    one_is_all: bool = False
    argument: str | None = None
    labels: Kind = "class"


def choose_partition(settings: PartitionSettings) -> Partition:
    """The scheme that `settings` name; ConfigError if there is none, or if its settings are wrong."""
    partition = _named(settings)
    partition.check(settings)
    return partition


def is_whole(settings: PartitionSettings) -> bool:
    """Whether there is one part, the data set itself, whatever the other settings."""
    return settings.number == 1 and _named(settings).one_is_all


def rule_of(settings: PartitionSettings) -> str:
    """Scheme, its parameter if any, and seed; in full, so that no two rules look alike."""
    parameter, scheme = _named(settings).parameter, settings.scheme
    if parameter is not None:
        scheme = f"{scheme.partition(':')[0]} {parameter(settings)}"
    return f"{scheme}, seed {settings.seed}{', of persons' if settings.persons else ''}"


def _named(settings: PartitionSettings) -> Partition:
    """The scheme, with settings unchecked: names in the ledger are needed once for each client."""
    partition = PARTITIONS.load(settings.scheme, Partition)
    PARTITIONS.argument(settings.scheme, partition.argument)
    return partition


def number_in(settings: PartitionSettings, wanted: str, least: float, most: float) -> float:
    """The argument, up to its colon if any, as a number in that range; else ConfigError. wanted: in words."""
    word = settings.argument.partition(":")[0]
    return flat.number_in("partition", settings.scheme, word, least, most, wanted)
