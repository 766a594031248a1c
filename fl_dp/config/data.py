"""Settings of the records: the data set, and how it is split. Server and clients use the same keys."""

from dataclasses import dataclass
from typing import Annotated, Literal

from fl_dp.choices import FEATURES, PARTITIONS, SOURCES
from fl_dp.config.flat import FlatConfig
from fl_dp.config.setting import Range, Seed, Side, setting
from fl_dp.records import PROVEN

CLIENT = "{client}"  # in the path of the data: the client's name, or its number in a simulation
IMAGE_MODES = ("", "L", "RGB")
ENCODINGS = ("utf-8", "latin-1", "cp1252")
RECORD, PERSON = "record", "person"  # the unit: what one example of a step is, and what is protected
MOST_RECORDS = 4096  # per person and step; memory is allocated for all of them


_DATA, _SPLIT, _UNIT = "Data", "Split among clients", "Unit of privacy"
OWN = "own"  # test records of a site: those that its data source or task says are for testing
MOST_TEST = 0.9  # share of the units that may be for testing


@dataclass(frozen=True, kw_only=True)
class DataSettings(FlatConfig):
    """Each setting's meaning stands beside it; `fl-dp keys` shows it."""

    data: str = setting(
        "digits",
        _DATA,
        "a name, or KIND:PATH; with {client} in PATH each client has its own file",
        choices=SOURCES,
        checked=False,
        page="data.md",
        common=True,
        path=True,
    )
    data_name: str = setting(
        "",
        _DATA,
        "name of the data in ledgers, if it differs from data: a moved file keeps its name",
        page="data.md",
    )
    data_root: str = setting(
        "data", _DATA, "folder that torchvision's data sets are downloaded to", path=True
    )
    schema: str = setting(
        "",
        _DATA,
        "schema file of a table, if it is not beside the table",
        page="tables.md",
        path=True,
    )
    columns: str = setting(
        "", _DATA, "columns of a saved data set: INPUT,LABEL; of texts: AUTHOR,TEXT", page="data.md"
    )
    image_size: Side = setting(
        0, _DATA, "size in pixels that images are scaled to; 0: they already have the same size"
    )
    image_mode: str = setting(
        "",
        _DATA,
        "colour mode that images are converted to; empty: they already have the same one",
        choices=IMAGE_MODES,
    )
    features: str = setting(
        "",
        _DATA,
        "fixed function of each record; the model gets its result instead of the record; empty: none",
        choices=FEATURES,
        checked=False,
        page="models.md#fixed-features",
    )
    tokens: Side = setting(
        0, _DATA, "length of a text example in tokens; 0: the source's own", page="data.md"
    )
    tokenizer: str = setting(
        "bytes",
        _DATA,
        "tokenizer of texts: bytes, words:N, or the path of a tokenizer.json",
        page="data.md",
        path=True,
    )
    encoding: str = setting("utf-8", _DATA, "encoding of text and CSV files", choices=ENCODINGS)
    test: Annotated[float, Range(0, MOST_TEST)] | Literal["own"] = setting(
        0.0,
        _DATA,
        "a site's own test records, never trained on: a share, chosen by a secret hash of each record or "
        "person; own: the test records of its data; 0: none",
        page="site-metrics.md",
    )
    unit: str = setting(
        RECORD,
        _UNIT,
        "record, or person:COLUMN: all records with the same value in COLUMN",
        page="persons.md",
    )
    records_per_person: Annotated[int, Range(0, MOST_RECORDS)] = setting(
        0,
        _UNIT,
        "number of a person's first records that count; 0 if the unit is the record",
        page="persons.md",
    )
    partition: str = setting(
        "iid",
        _SPLIT,
        "how a common data set is split; some names take an argument, such as dirichlet:0.5",
        choices=PARTITIONS,
        page="data.md#how-data-are-split-among-simulated-clients",
        common=True,
    )
    seed: Seed = setting(
        0,
        _SPLIT,
        "seed of the split, of the first weights and, in simulations, of who trains when; never of noise or "
        "batches",
        common=True,
    )

    @property
    def by_client(self) -> bool:
        """Whether each client reads a file of its own, as a whole."""
        return CLIENT in self.data

    @property
    def test_share(self) -> float:
        """The share of records or persons that a hash selects for testing; 0: none."""
        return 0.0 if self.test == OWN else float(self.test)

    @property
    def person_column(self) -> str:
        """The column whose values are persons; empty if the unit is the record."""
        return self.unit.partition(":")[2]

    @property
    def unit_name(self) -> str:
        """What is counted: "record" or "person"."""
        return self.unit.partition(":")[0]

    @property
    def unit_of_all(self) -> str:
        """The unit in words that sites compare, without the column's name: each site has its own."""
        if self.unit == RECORD:
            return RECORD
        return f"{PERSON}, first {self.records_per_person} records"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require("tokenizer", bool(self.tokenizer), "bytes, words:N, or the path of a tokenizer.json")
        self._check_unit()
        self._require(
            "partition",
            self.partition == "iid" or not self.by_client,
            "iid (leave partition out), as each client already has its own records: a file each, or in "
            "Python an entry each of the mapping data",
        )

    def _check_features(self, arithmetic: str) -> None:
        """Refuse features with proven arithmetic: they are computed for many records at once."""
        self._require(
            "features",
            not self.features or arithmetic != PROVEN,
            f"no features with arithmetic = {arithmetic!r}: that a record's features do not depend on other "
            "records is tested, not proven",
        )

    def _check_unit(self) -> None:
        kind, _, column = self.unit.partition(":")
        self._require(
            "unit",
            self.unit == RECORD or (kind == PERSON and bool(column)),
            f'"{RECORD}", or "{PERSON}:COLUMN", where COLUMN says whose record it is',
        )
        number = self.records_per_person
        if self.unit == RECORD:
            self._require("records-per-person", number == 0, f"no value with unit = {RECORD!r}")
            return
        self._require(
            "records-per-person",
            1 <= number <= MOST_RECORDS,
            f"an integer from 1 to {MOST_RECORDS}: a public limit on the records of one person that "
            "count in a step",
        )
