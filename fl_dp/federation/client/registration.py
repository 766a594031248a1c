"""A client's data in its ledger: one account for each data set, or for each part of one.

The declared number of units (records, or persons) is public; the real one is secret. The draw of a step is
truncated at a size that follows from the declared number (`engine.sum_error.most_drawn`). Its proof holds for
data with at most so many units, so larger data are refused.
"""

import hashlib
import math
from dataclasses import replace
from pathlib import Path

from fl_dp.accounting.ledger.requests import DataDeclaration, Digests
from fl_dp.choices import SOURCES
from fl_dp.config.client import ClientConfig
from fl_dp.config.data import CLIENT
from fl_dp.config.flat import AUTO
from fl_dp.config.run import RunConfig
from fl_dp.config.task import TaskSettings
from fl_dp.data.partition_scheme import PartitionSettings, is_whole, rule_of
from fl_dp.data.persons import Examples, PersonData, digests_of_names
from fl_dp.data.source import choose_source
from fl_dp.errors import DataError, LedgerError
from fl_dp.records import TEST_RECORDS
from fl_dp.tasks.held_out import HeldOut
from fl_dp.tasks.identity import identity
from fl_dp.tasks.load import reads_own_data, task_class, task_of


def registration_of(data: Examples, config: ClientConfig) -> DataDeclaration:
    """The declaration that enters the client's data in its ledger on their first use.

    DataError if there are more units than the settings declare.
    """
    units = len(data)
    declared = auto_size(units, config) if config.public_size == AUTO else int(config.public_size)
    if units > declared:
        raise DataError(
            f"public-size = {declared}: the data have {units} {config.unit_name}s. The guarantee holds for "
            f"at most the declared number. Declare at least {units}; better is a round number above it."
        )
    return _declaration(dataset_name(config), data, declared, config)


def _declaration(name: str, data: Examples | None, declared: int, config: ClientConfig) -> DataDeclaration:
    """data: None if there are none; the fingerprint is then that of the name."""
    return DataDeclaration(
        name,
        data.fingerprint() if data is not None else hashlib.sha256(name.encode()).hexdigest(),
        declared,
        source=records_name(config),
        cut=registered_cut(config),
        digests=data.record_digests if data is not None else None,
        unit=config.unit_name,
        person_digests=_person_digests(data) if data is not None else None,
        file_digests=data.read.digests if data is not None and data.read else None,
    )


def auto_size(units: int, config: ClientConfig | RunConfig) -> int:
    """What `public-size = "auto"` declares for data with so many units.

    | data | declared |
    |---|---|
    | a client's own | one unit more, rounded up to a number of three binary digits |
    | a part of a common data set, as in trials on one machine | the exact number |
    | a public benchmark set | the exact number, which everybody knows |
    | the rest of any of these after a secret split (test) | as a client's own |

    Three binary digits, then zeros: 1 to 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, ... Data with one unit more
    still fit the number, and nearly always declare the same one. It is at most a quarter too large.
    """
    if not config.test_share and (cut_of(config) or is_public(config)):
        return units
    spacing = 1 << max(0, (units + 1).bit_length() - 3)
    return -(-(units + 1) // spacing) * spacing


def is_public(config: TaskSettings) -> bool:
    """Whether the data are public. Only built-in data sets count as public, never a task's own records."""
    if config.task and reads_own_data(config.task):
        return False
    if config.data.partition(":")[0] not in SOURCES.built_in():
        return False
    return choose_source(config.data)[0].public


def numbered(template: ClientConfig, part: int, parts: int) -> ClientConfig:
    """The settings of the simulated client that holds part `part` of `parts`; its number is its name."""
    return replace(template, client=str(part), partition_id=part, num_partitions=parts)


def check_held(units: int, dataset: str, held: int, config: ClientConfig) -> None:
    """LedgerError if the ledger declares fewer units, `held`, than the data set has.

    An older fl_dp let operators declare fewer.
    """
    if units > held:
        raise LedgerError(
            f"{config.ledger}: holds {dataset!r} with {held} {config.unit_name}s as its declared number, "
            f"but there are {units}. To declare more, retire that account (fl-dp ledger retire)."
        )


def _person_digests(data: Examples) -> Digests | None:
    """Digests of the persons' ids. If units are records: of the groups' names, which may be such ids."""
    if isinstance(data, PersonData):
        return data.person_digests
    groups = data.groups
    return (lambda: digests_of_names(groups)) if groups else None


def dataset_name(config: ClientConfig) -> str:
    """The name of the client's data in its ledger: `digits`, or `digits, part 0/2 (iid, seed 0)`."""
    rule = _rule(config)
    part = f", part {config.partition_id}/{config.num_partitions} ({rule})" if rule else ""
    return f"{records_name(config)}{part}"


def account_digest(config: ClientConfig) -> str:
    """The data's account in file names: distinguishes ledgers in one folder, and their data sets."""
    words = f"{Path(config.ledger).name}\0{dataset_name(config)}"
    return hashlib.sha256(words.encode()).hexdigest()[:16]


def records_name(config: ClientConfig) -> str:
    """The name of all records from which the client's are taken: the given name, else that of the source, or
    of the task that reads them itself. If each client has its own file, it includes the client's name.
    """
    name = config.data_name or _kind_of_all(config)
    if not config.by_client:
        return name
    return name.replace(CLIENT, config.client) if CLIENT in name else f"{name}, client {config.client}"


def public_name(config: ClientConfig) -> str:
    """The name of the data that others see: the operator's name for them, else their kind.

    Never a file's path, which may reveal more than its owner knows.
    """
    if config.data_name:
        return config.data_name.replace(CLIENT, config.client)
    return public_kind(config)


def public_kind(config: ClientConfig) -> str:
    """The kind of the data, whatever their operator calls them."""
    return _kind_of_all(config).replace(config.data, config.data.partition(":")[0])


def _kind_of_all(config: ClientConfig) -> str:
    if not config.task or not reads_own_data(config.task):
        return config.data
    unsaid = config.data == ClientConfig.data  # the default, which the task may ignore
    return f"records of {task_class(config.task).__name__}" + ("" if unsaid else f" in {config.data}")


def task_identity(config: TaskSettings) -> str:
    """The digest to compare with a server's plan; empty if all is built in and no schema is read."""
    return identity(task_of(config))


def cut_of(config: ClientConfig | RunConfig) -> str:
    """All that decides which record is in which part; empty if there is one part."""
    rule = _rule(config)
    return f"{PartitionSettings.of(config).number} parts ({rule})" if rule else ""


def _rule(config: ClientConfig | RunConfig) -> str:
    """The rule by which data are cut into parts; empty if they are one part."""
    settings = PartitionSettings.of(config)
    return "" if config.by_client or is_whole(settings) else rule_of(settings)


def registered_cut(config: ClientConfig) -> str:
    """As `cut_of`, with the share of test records: parts for training and for testing share no unit."""
    share = f"test {config.test_share:g} of {config.unit_name}s" if config.test_share else ""
    return ", ".join(filter(None, (cut_of(config), share)))


def held_out_registration(held_out: HeldOut, config: ClientConfig) -> DataDeclaration:
    """The declaration of the client's test records, which have an account of their own.

    If test is a share, no unit is in both accounts. With test = own a unit may be in both, if its operator
    chose such data; then it pays in both (docs/site-metrics.md).
    DataError if there are more units than the settings declare.
    """
    declared = _test_size(held_out.units, config)
    if held_out.units > declared:
        raise DataError(
            f"test = {config.test}: there are {held_out.units} {config.unit_name}s for testing; public-size "
            f"= {config.public_size} allows {declared} at most. Declare more (public-size)."
        )
    return _declaration(dataset_name(config) + TEST_RECORDS, held_out.records, declared, config)


def _test_size(units: int, config: ClientConfig) -> int:
    """The declared number of test units, from `public-size` if it is a number and the share is known.

    A share s of N units leaves about n = N (1 - s) for training. The number m for testing is about
    n s / (1 - s). It is more than five deviations above that with a probability below 1e-6.
    """
    if config.public_size == AUTO or not config.test_share:
        return max(1, auto_size(units, config))  # also if there are none
    left = 1 - config.test_share
    units_in_all = int(config.public_size) / left
    spread = math.sqrt(units_in_all * config.test_share * left) / left
    return math.ceil(units_in_all * config.test_share + 5 * spread) + 5
