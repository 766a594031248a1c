"""Which records: a data set, and how it is split into parts. Server and clients say it in the same keys."""

from dataclasses import dataclass

from fl_dp.choices import PARTITIONS
from fl_dp.config.flat import FlatConfig, require, require_positive

CLIENT = "{client}"  # in the path of the data: the client's name, in a simulation its number
IMAGE_MODES = ("", "L", "RGB")
ENCODINGS = ("utf-8", "latin-1", "cp1252")


@dataclass(frozen=True, kw_only=True)
class DataSettings(FlatConfig):
    """README.md explains every key. seed: of the partition, and in a run also of the first weights.

    data_name: of the data in ledgers, where it is not that of `data`: a file may be moved and keep it.
    schema: the file that says what a table's columns are; empty: the one beside the table.
    columns: of a saved data set, INPUT,LABEL. image_size: that images are brought to; 0: they have one size.
    image_mode: that images are brought to; empty: they have one mode. tokens: length of a text's example.
    tokenizer: "bytes", "words:N", or a local tokenizer.json. encoding: of text files.
    """

    data: str = "digits"
    data_name: str = ""
    data_root: str = "data"
    schema: str = ""
    columns: str = ""
    image_size: int = 0
    image_mode: str = ""
    tokens: int = 0
    tokenizer: str = "bytes"
    encoding: str = "utf-8"
    partition: str = "iid"
    partition_alpha: float = 0.5
    partition_classes: int = 2
    partition_sizes: str = ""
    seed: int = 0

    @property
    def by_client(self) -> bool:
        """Whether each client reads a file of its own, and all of it."""
        return CLIENT in self.data

    def __post_init__(self) -> None:
        PARTITIONS.check(self.partition)
        require_positive(self, "partition_alpha")
        require(self.partition_classes >= 1, "partition-classes", self.partition_classes, "an integer >= 1")
        require(self.seed >= 0, "seed", self.seed, "an integer >= 0")
        require(self.image_size >= 0, "image-size", self.image_size, "an integer >= 0")
        require(self.image_mode in IMAGE_MODES, "image-mode", self.image_mode, "L, RGB or nothing")
        require(self.tokens >= 0, "tokens", self.tokens, "an integer >= 0")
        require(
            bool(self.tokenizer),
            "tokenizer",
            self.tokenizer,
            "bytes, words:N, or the path of a tokenizer.json",
        )
        require(self.encoding in ENCODINGS, "encoding", self.encoding, " or ".join(ENCODINGS))
        if self.by_client:
            require(
                self.partition == "iid", "partition", self.partition,
                f"none beside {CLIENT} in data: each client has a file of its own",
            )  # fmt: skip
