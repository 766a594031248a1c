"""Finds a data set by its name, such as `digits` or `npz:PATH`, in the file of that name in sources/."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Self

from torch import Tensor

from fl_dp.choices import SOURCES
from fl_dp.config.data import CLIENT, DataSettings
from fl_dp.data.files_read import FilesRead, Lines, State, raw_lines, state_of
from fl_dp.data.tensor_data import Split, TensorData
from fl_dp.errors import ConfigError, DataError

if TYPE_CHECKING:
    from fl_dp.data.tables.encode import Table
    from fl_dp.data.tables.schema import Schema

_BEGINNING = 8192  # bytes, in which a file that is no text has a zero
TEST = "test"  # the folder, or the file, of test records
_BESIDE = (".toml", ".csv", ".json")  # what describes the files of a folder


@dataclass(frozen=True, slots=True)
class Reading:
    """How records are encoded: the settings of these names. They are public, and no statistics of records."""

    schema: str = ""
    columns: str = ""
    image_size: int = 0
    image_mode: str = ""
    tokens: int = 0
    tokenizer: str = "bytes"
    encoding: str = "utf-8"

    @classmethod
    def of(cls, settings: DataSettings) -> Self:
        values = {field.name: getattr(settings, field.name) for field in fields(cls)}
        return cls(**{**values, "schema": absolute_schema(settings.schema)})


AS_THEY_ARE = Reading()


@dataclass(frozen=True, slots=True)
class Location:
    """Where a source finds its data, and how it encodes them.

    root: the setting `data-root`, absolute; for torchvision's data sets. argument: what the user wrote after
    the name, made absolute if it is a path; empty if the source takes none.
    """

    root: Path
    argument: str
    reading: Reading = AS_THEY_ARE

    @property
    def schema(self) -> Path | None:
        """The setting `schema`; None: the source's default place."""
        return Path(self.reading.schema) if self.reading.schema else None

    @property
    def path(self) -> Path:
        """The argument, for a source whose argument is a path."""
        return Path(self.argument)


@dataclass(frozen=True, slots=True)
class Source:
    """A data source that users can choose: the constant `SOURCE` of a file in sources/.

    load: one split of the data; DataError says which file is missing or wrong and what was expected.
    argument: its name in errors, PATH of `npz:PATH`. None: there is none.
    is_path: the argument names a file or folder. It may be relative, and is made absolute before a run
    starts, so that the run's own config means the same from another working directory. Write `is_path=True`
    in the source's file: that text is looked for before anything is imported.
    schema: the data's schema, from the file at `schema_file`, read without any record. None: there is none.
    inputs: all inputs (n, ...) as in a TensorData, in the file's order, labelled or not: what to predict for.
    None: those of the test split. table: of a source of tables: reads one by a schema, which may be empty.
    public: a benchmark set that anybody may have, so that nobody's privacy is at stake.
    endings: of files with records, if the argument names a folder; a ledger ignores its other files. lines:
    reads the lines of such a file, or its rows; None: a ledger identifies the file only as a whole.
    """

    load: Callable[[Location, Split], TensorData]
    argument: str | None = None
    is_path: bool = False
    schema: "Callable[[Location], Schema] | None" = None
    schema_file: Callable[[Location], Path] | None = None
    inputs: Callable[[Location], Tensor] | None = None
    table: "Callable[[Location, Schema], Table] | None" = None
    public: bool = False
    endings: tuple[str, ...] = ()
    lines: Lines | None = None


def data_of(settings: DataSettings, split: Split) -> TensorData:
    """One split of the data that the settings name; do not write into its tensors: equal files are read once.

    ConfigError for a name that is not in sources/, for a wrong argument and for a schema that the source does
    not read; also raises what the source raises.
    """
    source, location = _located(settings)
    if not source.is_path or (location.path.is_dir() and not source.endings):
        return source.load(location, split)  # it does not say which files would show a change
    return _load(source, location, split, state_of(_may_be_read(source, location)))


def seen(settings: DataSettings) -> tuple[int, ...]:
    """Size and time of the named file or folder: a quick check; `data_of` compares contents."""
    source, location = _located(settings)
    found = location.path.stat() if source.is_path and location.path.exists() else None
    return (found.st_size, found.st_mtime_ns) if found else ()


def schema_of(settings: DataSettings) -> "Schema | None":
    """The schema of the data that the settings name, if any; raises as `data_of`, but needs no data."""
    source, location = _located(settings)
    return source.schema(location) if source.schema else None


def absolute_schema(path: str) -> str:
    """`path`, made absolute unless it is empty."""
    return str(Path(path).expanduser().absolute()) if path else ""


def schema_text(settings: DataSettings) -> str:
    """The text of that schema's file; empty without one. Raises as `data_of`, but needs no data."""
    source, location = _located(settings)
    return source.schema_file(location).read_text(encoding="utf-8") if source.schema_file else ""


def load_inputs(settings: DataSettings) -> Tensor | None:
    """The data's inputs, labelled or not; None if only labelled data can be read. Raises as `data_of`."""
    source, location = _located(settings)
    return source.inputs(location) if source.inputs else None


def absolute_name(name: str) -> str:
    """`name`, with its argument made absolute if it is a path; ConfigError as in `data_of`."""
    source, argument = choose_source(name)
    if not (source.is_path and argument):
        return name
    return f"{name.partition(':')[0]}:{Path(argument).expanduser().absolute()}"


def files_of(paths: Iterable[Path]) -> FilesRead:
    """Files that a user's own code reads, as a ledger identifies those of a built-in source.

    DataError for one that cannot be read.
    """
    asked = sorted({path.expanduser().absolute() for path in paths})
    state = state_of(asked)
    if missing := set(asked) - {path for path, _ in state}:
        raise DataError(f"{min(missing)}: no file that can be read; name each file that holds records.")
    return FilesRead(state, _lines_of)


def _lines_of(path: Path) -> Iterable[bytes]:
    """Lines of a text file, rows of an .npz or Parquet file; nothing of other files."""
    kind = path.suffix[1:].lower()
    if kind in ("npz", "parquet"):
        return SOURCES.load(kind, Source).lines(path)  # type: ignore[misc]  # both have it
    is_text = kind == "gz" or b"\0" not in path.read_bytes()[:_BEGINNING]
    return raw_lines(path) if is_text else []


@lru_cache(maxsize=2)  # server, clients and checks of one process ask for the same splits
def _load(source: Source, location: Location, split: Split, state: State) -> TensorData:
    """state: the contents of all files that may be read; one may change and keep its time and size."""
    path, test = location.path, location.path / TEST  # a folder's test records may be a common set
    own = tuple(
        (file, digest)
        for file, digest in state
        if file == path or (file.name.lower().endswith(source.endings) and test not in file.parents)
    )
    return replace(source.load(location, split), read=FilesRead(own, source.lines))


def _may_be_read(source: Source, location: Location) -> Iterator[Path]:
    path, tokenizer = location.path, Path(location.reading.tokenizer)
    below = path.rglob("*") if source.endings and path.is_dir() else ()
    yield from sorted(file for file in below if file.name.lower().endswith((*source.endings, *_BESIDE)))
    yield from (path, tokenizer.expanduser())
    if source.schema_file:
        yield from (source.schema_file(location), path.parent / f"{TEST}{path.suffix}")


def _located(settings: DataSettings) -> tuple[Source, Location]:
    source, argument = choose_source(absolute_name(settings.data))
    reading = Reading.of(settings)
    if reading.schema and source.schema is None:
        raise ConfigError(
            f"schema = {reading.schema!r}: data = {settings.data!r} has no schema; leave it empty."
        )
    return source, Location(Path(settings.data_root).expanduser().absolute(), argument, reading)


def choose_source(name: str) -> tuple[Source, str]:
    """The descriptor of the source `name`, and the argument; ConfigError if either is wrong."""
    source = SOURCES.load(name, Source)
    argument = SOURCES.argument(name, source.argument)
    if CLIENT in argument and not source.is_path:
        raise ConfigError(f"data = {name!r}: {CLIENT} may be used only in paths.")
    return source, argument
