"""Records in a program's memory, for a run: written to files that only their owner can read, then deleted.

A run reads its data by name, in the process that starts it. So records in memory are handled like files: they
are checked in the same way, and a ledger recognises them by the same content. The files exist as long as the
call. A process that is killed leaves them in the folder for temporary files (TMPDIR).
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd

from fl_dp.config.data import CLIENT
from fl_dp.config.run import RunConfig
from fl_dp.data.sources.npz import write_npz
from fl_dp.data.tables.files import write_frame
from fl_dp.data.tables.parse import read_schema
from fl_dp.data.tables.schema import FILE
from fl_dp.data.tensor_data import TensorData
from fl_dp.errors import ConfigError, DataError
from fl_dp.launch.session import private_records
from fl_dp.tasks.load import give, reads_own_data
from fl_dp.tasks.records import SERVER
from fl_dp.tasks.task import Task

Records: TypeAlias = pd.DataFrame | TensorData
Data: TypeAlias = str | Records | Mapping[str, Records]
_ALL, _TEST = "records", "test"  # files' names: a table's test records are looked for in the second


@contextmanager
def named_data(
    data: Data | None,
    test_data: Records | None,
    settings: Mapping[str, Any],
    base: RunConfig,
    task: str | type[Task] = "",
) -> Iterator[dict[str, Any]]:
    """In this context, the settings, as keywords, by which a run reads `data` and the server `test_data`.

    data: a name; or the records of all clients together; or a mapping with those of each, in its order.
    base: the config that the settings change. task: the run's, if it is not that of `base`. ConfigError for
    what does not go together, DataError for records that no file can hold.
    """
    if data is None or isinstance(data, str):
        if test_data is not None:
            raise ConfigError("test_data: only for data in memory; a name such as csv:FILE has its own.")
        yield {**settings} if data is None else {**settings, "data": data}
        return
    name = (task if isinstance(task, str) else give(task)) or base.task
    if name and reads_own_data(name):
        raise ConfigError(
            "data: the task reads its own records, by train_data(), and would never see these; leave out "
            "either its train_data() or data."
        )
    of_each = isinstance(data, Mapping)
    parts = list(data.values()) if isinstance(data, Mapping) else [data]
    kind = _kind([*parts, *([] if test_data is None else [test_data])])
    _check_test_data(kind, test_data, settings, base, needed=of_each or kind is TensorData)
    own = {"data_name": "frame" if kind is pd.DataFrame else "arrays", **settings}
    if "schema" in own:  # a path, perhaps
        own["schema"] = str(own["schema"])
    if of_each:
        own["clients"] = _clients(len(parts), settings)
    with private_records() as folder:
        name = CLIENT if of_each else _ALL
        for number, one in enumerate(parts):
            _write(Path(folder, str(number) if of_each else _ALL), one, None)
        if test_data is not None and kind is TensorData and not of_each:
            _write(Path(folder, _ALL), parts[0], test_data)
        elif test_data is not None:
            _write(Path(folder, SERVER if of_each else _TEST), None, test_data)
        ending = "parquet" if kind is pd.DataFrame else "npz"
        try:
            yield {**own, "data": f"{ending}:{Path(folder, name)}.{ending}"}
        except DataError as error:
            names = list(data) if isinstance(data, Mapping) else []
            raise DataError(_as_given(str(error), folder, ending, names)) from None


def _as_given(words: str, folder: str, ending: str, clients: list[str]) -> str:
    """`words` with the caller's names in place of our temporary files."""
    given = {_ALL: "data", _TEST: "test_data", SERVER: "test_data"}
    given |= {str(number): f"data[{name!r}]" for number, name in enumerate(clients)}
    for name, what in given.items():
        words = words.replace(str(Path(folder, f"{name}.{ending}")), what)
    return words


def _kind(found: list[Any]) -> type:
    for kind in (pd.DataFrame, TensorData):
        if found and all(isinstance(one, kind) for one in found):
            return kind
    names = ", ".join(sorted({type(one).__name__ for one in found})) or "nothing"
    raise ConfigError(
        "data: expected data frames alone, or fl_dp.TensorData alone, or a mapping with one for each client, "
        f"such as dict(enumerate(parts)), not {names}; fl_dp.TensorData.of makes one from a torch data set."
    )


def _check_test_data(
    kind: type, test_data: Records | None, settings: Mapping[str, Any], base: RunConfig, *, needed: bool
) -> None:
    """ConfigError if test records are missing, or if the schema does not expect them apart.

    needed: the data have no test records of their own.
    """
    evaluates = settings.get("evaluate", base.evaluate) == "server"
    evaluates &= not settings.get("personal", base.personal)
    if test_data is None and needed and evaluates:
        raise ConfigError('test_data: the server has no test records; give them, or set evaluate = "off".')
    if kind is TensorData:
        return
    schema = str(settings.get("schema", base.schema))
    if not schema:
        raise ConfigError(
            "schema: name the public file that declares the data frame's columns (docs/tables.md); `fl-dp "
            "schema` drafts one."
        )
    found = read_schema(Path(schema).expanduser())
    if test_data is not None and found.split != FILE:
        raise ConfigError(
            f'test_data: {schema} does not say that test data are separate; set split = "{FILE}" in it.'
        )


def _clients(count: int, settings: Mapping[str, Any]) -> int:
    if settings.get("clients", count) != count:
        raise ConfigError(
            f"clients = {settings['clients']}: expected {count}, the number of parts that data has."
        )
    return count


def _write(file: Path, train: Records | None, test: Records | None) -> None:
    records = test if train is None else train
    if isinstance(records, pd.DataFrame):
        write_frame(records, file.with_suffix(".parquet"))
        return
    assert train is None or isinstance(train, TensorData)
    assert test is None or isinstance(test, TensorData)
    write_npz(file.with_suffix(".npz"), train, test)
