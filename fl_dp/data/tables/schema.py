"""What is public about a table: its columns, what each may hold, and the form of the encoded records."""

from dataclasses import dataclass
from typing import TypeVar

from fl_dp.data.tables.columns import (
    Category,
    Column,
    Group,
    Label,
    Number,
    Site,
    SplitColumn,
    SubgroupColumn,
    Target,
)
from fl_dp.form import Form

_NOT_ENCODED = Group | Site | SplitColumn | SubgroupColumn
Kind = TypeVar("Kind", bound=Column)

HASH, NONE, FILE = "hash", "none", "file"


@dataclass(frozen=True, slots=True)
class Schema:
    """A table as declared by its schema file; `parse_schema` makes one.

    columns: every column of the file, in the order of the encoding. header: the file's first line names its
    columns, in any order; without it they are in the schema's order. separator, encoding: of a CSV file; with
    an empty encoding the setting decides. split: which records are for testing, if no column says it.
    """

    columns: tuple[Column, ...]
    header: bool = True
    separator: str = ","
    split: str = HASH
    encoding: str = ""

    def of_kind(self, kind: type[Kind]) -> tuple[Kind, ...]:
        """The columns of one kind, in order."""
        return tuple(column for column in self.columns if isinstance(column, kind))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def declared(self) -> tuple[Column, ...]:
        """All columns that are not ignored."""
        return tuple(column for column in self.columns if type(column) is not Column)

    @property
    def input_columns(self) -> tuple[Number | Category, ...]:
        return tuple(column for column in self.columns if isinstance(column, Number | Category))

    @property
    def inputs(self) -> tuple[str, ...]:
        """A name for each of the d encoded inputs."""
        return tuple(name for column in self.input_columns for name in column.inputs)

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, or of the predicted numbers."""
        labels, targets = self.of_kind(Label), self.of_kind(Target)
        return labels[0].classes if len(labels) == 1 else tuple(one.name for one in (*labels, *targets))

    @property
    def form(self) -> Form:
        """Form of the encoded records; needs no record."""
        one_label = len(self.of_kind(Label)) == 1
        return Form((len(self.inputs),), len(self.classes), "class" if one_label else "numbers")

    @property
    def meaning(self) -> str:
        """All that decides how a record becomes numbers; not how the file is read, and no subgroups."""
        meant = [column for column in self.declared if not isinstance(column, _NOT_ENCODED)]
        return "\n".join(map(repr, meant))

    def one(self, kind: type[Kind]) -> Kind | None:
        """The first column of one kind; None without any."""
        return next(iter(self.of_kind(kind)), None)
