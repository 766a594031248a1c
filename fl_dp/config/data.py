"""Which records: a data set, and how it is split into parts. Server and clients say it in the same keys."""

from dataclasses import dataclass
from typing import Annotated

from fl_dp.choices import PARTITIONS
from fl_dp.config.flat import FlatConfig, require
from fl_dp.config.ranges import Range, Seed, Side, check_ranges
from fl_dp.config.texts import check_texts

CLIENT = "{client}"  # in the path of the data: the client's name, in a simulation its number
IMAGE_MODES = ("", "L", "RGB")
ENCODINGS = ("utf-8", "latin-1", "cp1252")
RECORD, PERSON = "record", "person"  # what one example of a step is, and so what is protected
CHOSEN = FIRST, FRESH = ("first", "fresh")  # which records stand for a person that has more than may count
MOST_RECORDS = 4096  # of one person in a step: memory is taken for all of them, whoever is drawn


@dataclass(frozen=True, kw_only=True)
class DataSettings(FlatConfig):
    """README.md explains every key. seed: of the partition, and in a run also of the first weights.

    data_name: of the data in ledgers, where it is not that of `data`: a file may be moved and keep it.
    schema: the file that says what a table's columns are; empty: the one beside the table.
    columns: of a saved data set, INPUT,LABEL. image_size: that images are brought to; 0: they have one size.
    image_mode: that images are brought to; empty: they have one mode. tokens: length of a text's example.
    tokenizer: "bytes", "words:N", or a local tokenizer.json. encoding: of text files.
    unit: whom privacy protects: "record", or "person:COLUMN", all records of which COLUMN says that they are
    one person's. records_per_person: most that count in a step, with persons alone. records_chosen: one of
    `CHOSEN`.
    """

    data: str = "digits"
    data_name: str = ""
    data_root: str = "data"
    schema: str = ""
    columns: str = ""
    image_size: Side = 0
    image_mode: str = ""
    tokens: Side = 0
    tokenizer: str = "bytes"
    encoding: str = "utf-8"
    unit: str = RECORD
    records_per_person: Annotated[int, Range(0, MOST_RECORDS)] = 0
    records_chosen: str = FIRST
    partition: str = "iid"
    partition_alpha: Annotated[float, Range(1e-6, 1e9)] = 0.5
    partition_classes: Annotated[int, Range(1, 10**6)] = 2
    partition_sizes: str = ""
    seed: Seed = 0

    @property
    def by_client(self) -> bool:
        """Whether each client reads a file of its own, and all of it."""
        return CLIENT in self.data

    @property
    def person_column(self) -> str:
        """The column whose values are persons; empty where the unit is the record."""
        return self.unit.partition(":")[2]

    @property
    def unit_name(self) -> str:
        """What is counted, in a word: record or person."""
        return self.unit.partition(":")[0]

    @property
    def unit_of_all(self) -> str:
        """The unit in words that sites compare: what they call the column is each one's own."""
        if self.unit == RECORD:
            return RECORD
        return f"{PERSON}, {self.records_chosen} {self.records_per_person} records"

    def __post_init__(self) -> None:
        check_ranges(self)
        check_texts(self)
        PARTITIONS.check(self.partition)
        require(self.image_mode in IMAGE_MODES, "image-mode", self.image_mode, "L, RGB or nothing")
        require(
            bool(self.tokenizer),
            "tokenizer",
            self.tokenizer,
            "bytes, words:N, or the path of a tokenizer.json",
        )
        require(self.encoding in ENCODINGS, "encoding", self.encoding, " or ".join(ENCODINGS))
        self._check_unit()
        if self.by_client:
            require(
                self.partition == "iid", "partition", self.partition,
                f"none beside {CLIENT} in data: each client has a file of its own",
            )  # fmt: skip

    def _check_unit(self) -> None:
        kind, _, column = self.unit.partition(":")
        require(
            self.unit == RECORD or (kind == PERSON and bool(column)), "unit", self.unit,
            f'"{RECORD}", or "{PERSON}:COLUMN", the column that says whose record it is',
        )  # fmt: skip
        require(self.records_chosen in CHOSEN, "records-chosen", self.records_chosen, " or ".join(CHOSEN))
        number = self.records_per_person
        if self.unit == RECORD:
            require(number == 0, "records-per-person", number, f"none beside unit = {RECORD!r}")
            return
        require(
            1 <= number <= MOST_RECORDS, "records-per-person", number,
            f"an integer from 1 to {MOST_RECORDS}, public: most records of one person that count in a step",
        )  # fmt: skip
