"""A data set by its name, such as `digits` or `npz:PATH`, from the file in sources/ that has the name."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from fl_dp.choices import SOURCES
from fl_dp.data.tensor_data import Split, TensorData
from fl_dp.errors import ConfigError
from fl_dp.form import Form


@dataclass(frozen=True, slots=True)
class Location:
    """Where a source finds its data.

    root: the setting `data-root`, absolute; where torchvision's sets live. argument: what the user wrote
    behind the name, an absolute path if the source says that it is a path; empty for one that takes none.
    schema: the setting `schema`, absolute; None: it is where the source looks for it.
    """

    root: Path
    argument: str
    schema: Path | None = None

    @property
    def path(self) -> Path:
        """The argument of a source whose argument is a path."""
        return Path(self.argument)


@dataclass(frozen=True, slots=True)
class Source:
    """A data source that users can choose: what a file in sources/ says of it, as the constant `SOURCE`.

    load: one split of the data; DataError says which file is missing or wrong and what was expected.
    argument: what users write behind the name, as errors call it: PATH of `npz:PATH`. None: nothing.
    is_path: the argument names a file or folder. It may then be relative, and is made absolute before a run
    starts, so that the run's own config means the same from another working directory.
    form: the form of the data, from a schema file alone: known where no record is. None: no schema is read.
    encoding: all that the schema says of how records become numbers, as one text: sites must agree on it.
    """

    load: Callable[[Location, Split], TensorData]
    argument: str | None = None
    is_path: bool = False
    form: Callable[[Location], Form] | None = None
    encoding: Callable[[Location], str] | None = None


def load_data(name: str, root: Path, split: Split, schema: str = "") -> TensorData:
    """One split of the data set `name`; loaded once per process, so do not write into its tensors.

    schema: the path of its schema file; empty: where the source looks for it. Raises ConfigError for a name
    that is not in sources/, for a wrong argument and for a schema that nobody reads; also what the source
    raises.
    """
    return _load(absolute_name(name), root.expanduser().absolute(), split, absolute_schema(schema))


def public_form(name: str, root: Path, schema: str = "") -> Form | None:
    """The form of the data set `name`, read from its schema alone; None where the source has none.

    Raises as `load_data`, but needs no data.
    """
    source, location = _located(absolute_name(name), root.expanduser().absolute(), absolute_schema(schema))
    return source.form(location) if source.form else None


def encoding_of(name: str, root: Path, schema: str = "") -> str:
    """How records of the data set `name` become numbers, by its schema; empty where it has none.

    Raises as `load_data`, but needs no data.
    """
    source, location = _located(absolute_name(name), root.expanduser().absolute(), absolute_schema(schema))
    return source.encoding(location) if source.encoding else ""


def absolute_schema(path: str) -> str:
    """`path` as an absolute one; empty if it is empty."""
    return str(Path(path).expanduser().absolute()) if path else ""


def absolute_name(name: str) -> str:
    """`name`, with an absolute path in it where its argument is a path; ConfigError as in `load_data`."""
    source, argument = choose_source(name)
    if not (source.is_path and argument):
        return name
    return f"{name.partition(':')[0]}:{Path(argument).expanduser().absolute()}"


@lru_cache(maxsize=2)  # a simulation's process asks for the same train and test split thousands of times
def _load(name: str, root: Path, split: Split, schema: str) -> TensorData:
    source, location = _located(name, root, schema)
    return source.load(location, split)


def _located(name: str, root: Path, schema: str) -> tuple[Source, Location]:
    source, argument = choose_source(name)
    if schema and source.form is None:
        raise ConfigError(f"schema = {schema!r}: data = {name!r} has no schema; leave the setting empty.")
    return source, Location(root, argument, Path(schema) if schema else None)


def choose_source(name: str) -> tuple[Source, str]:
    """The descriptor of the source `name`, and the argument; ConfigError where either is wrong."""
    source = SOURCES.load(name, Source)
    return source, SOURCES.argument(name, source.argument)
