"""A data set by its name, such as `digits` or `npz:PATH`, from the file in sources/ that has the name."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from torch import Tensor

from fl_dp.choices import SOURCES
from fl_dp.data.tensor_data import Split, TensorData


@dataclass(frozen=True, slots=True)
class Location:
    """Where a source finds its data.

    root: the setting `data-root`, absolute; where torchvision's sets live. argument: what the user wrote
    behind the name, an absolute path if the source says that it is a path; empty for one that takes none.
    """

    root: Path
    argument: str

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
    inputs: all inputs (n, ...) as in a TensorData, in the file's order, labelled or not: what a model is
    asked about. None: those of the test split are taken.
    """

    load: Callable[[Location, Split], TensorData]
    argument: str | None = None
    is_path: bool = False
    inputs: Callable[[Location], Tensor] | None = None


def load_data(name: str, root: Path, split: Split) -> TensorData:
    """One split of the data set `name`; loaded once per process, so do not write into its tensors.

    Raises ConfigError for a name that is not in sources/ and for a wrong argument; also what the source
    raises.
    """
    return _load(absolute_name(name), root.expanduser().absolute(), split)


def load_inputs(name: str, root: Path) -> Tensor | None:
    """The inputs of the data set `name`, labelled or not; None where it holds labelled splits alone.

    Raises as `load_data`.
    """
    source, argument = choose_source(absolute_name(name))
    return source.inputs(Location(root.expanduser().absolute(), argument)) if source.inputs else None


def absolute_name(name: str) -> str:
    """`name`, with an absolute path in it where its argument is a path; ConfigError as in `load_data`."""
    source, argument = choose_source(name)
    if not (source.is_path and argument):
        return name
    return f"{name.partition(':')[0]}:{Path(argument).expanduser().absolute()}"


@lru_cache(maxsize=2)  # a simulation's process asks for the same train and test split thousands of times
def _load(name: str, root: Path, split: Split) -> TensorData:
    source, argument = choose_source(name)
    return source.load(Location(root, argument), split)


def choose_source(name: str) -> tuple[Source, str]:
    """The descriptor of the source `name`, and the argument; ConfigError where either is wrong."""
    source = SOURCES.load(name, Source)
    return source, SOURCES.argument(name, source.argument)
