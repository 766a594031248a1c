"""Encodes texts as tokens of a public vocabulary: bytes, hashed words, or a tokenizer.json's."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fl_dp.data.files_read import State, state_of
from fl_dp.errors import DataError
from fl_dp.form import MOST_NAMES, check_count
from fl_dp.optional import require_package

if TYPE_CHECKING:
    from tokenizers import Tokenizer

BYTES, WORDS = "bytes", "words"
_WORD = re.compile(r"\w+|[^\w\s]")
_OF_PADDING = ("[PAD]", "<pad>", "<PAD>", "<|pad|>", "<|padding|>")

Tokens = NDArray[np.int64]


@dataclass(frozen=True)
class Encoder:
    """size: of the vocabulary. padding: the padding token; None: there is none.

    Without a tokenizer, 0 is padding. Byte b is token b + 1; with `words`, each lower-case word or mark is
    one of the other size - 1 tokens, by its hash.
    """

    size: int
    padding: int | None
    tokenizer: "Tokenizer | None" = None
    words: bool = False

    @property
    def counts_bytes(self) -> bool:
        """Whether `running` gives ends in bytes of UTF-8, not in characters."""
        return self.tokenizer is None and not self.words

    def running(self, text: str) -> tuple[Tokens, Tokens]:
        """All tokens of a running text, (n,), and where each ends, in bytes or characters of the text."""
        if self.words:
            found = list(_WORD.finditer(text))
            tokens = np.array([self._word(one.group()) for one in found], dtype=np.int64)
            return tokens, np.array([one.end() for one in found], dtype=np.int64)
        if self.tokenizer is None:
            tokens = np.frombuffer(text.encode(), np.uint8).astype(np.int64) + 1
            return tokens, np.arange(1, len(tokens) + 1)
        self.tokenizer.no_truncation()
        encoded = self.tokenizer.encode(text, add_special_tokens=False)
        ends = [end for _, end in encoded.offsets]
        return np.array(encoded.ids, dtype=np.int64), np.array(ends, dtype=np.int64)

    def rows(self, texts: Sequence[str], length: int) -> Tokens:
        """(n, length): each text's tokens, truncated or padded at the end. DataError without a padding token.

        Includes a tokenizer's own tokens at the ends ([CLS], [SEP]), if its file says so.
        """
        return self.filled(self._each(texts, length), len(texts), length)

    def filled(self, tokens: Iterable[Tokens], number: int, length: int) -> Tokens:
        """(number, length): `number` lists of tokens, each truncated or padded. Raises as `rows`."""
        if self.padding is None:
            raise DataError(
                f"the tokenizer has no padding token ({', '.join(_OF_PADDING[:2])}); shorter texts need one."
            )
        rows = np.full((number, length), self.padding, dtype=np.int64)
        for row, own in zip(rows, tokens, strict=True):
            row[: len(own)] = own[:length]
        return rows

    def _each(self, texts: Sequence[str], length: int) -> Iterator[Tokens]:
        if self.tokenizer is None:
            return (self.running(text)[0] for text in texts)
        self.tokenizer.enable_truncation(length)
        return (np.array(one.ids, dtype=np.int64) for one in self.tokenizer.encode_batch(list(texts)))

    def _word(self, word: str) -> int:
        digest = blake2b(word.lower().encode(), digest_size=8).digest()
        return 1 + int.from_bytes(digest, "big") % (self.size - 1)


def encoder_of(name: str) -> Encoder:
    """The encoder for `bytes`, `words:N` or the path of a tokenizer.json; DataError if it is none."""
    if name == BYTES:
        return Encoder(257, 0)
    if name.startswith(f"{WORDS}:"):
        size = name.partition(":")[2]
        if not (size.isdecimal() and len(size) < 10 and 2 <= int(size) <= MOST_NAMES):
            raise DataError(
                f"tokenizer = {name[:40]!r}: expected words:N, N from 2 to {MOST_NAMES} tokens, as in "
                "words:4096."
            )
        return Encoder(int(size), 0, words=True)
    path = Path(name).expanduser().absolute()
    return _from_file(path, state_of([path]))


def absolute_tokenizer(name: str) -> str:
    """`name`, made absolute if it is a path."""
    built_in = name == BYTES or name.startswith(f"{WORDS}:")
    return name if built_in else str(Path(name).expanduser().absolute())


@lru_cache(maxsize=2)
def _from_file(path: Path, state: State) -> Encoder:
    require_package("tokenizers", f"tokenizer {path}")
    from tokenizers import Tokenizer  # late: it is optional

    if not path.is_file():
        raise DataError(
            f"tokenizer {path}: no such file; expected {BYTES}, {WORDS}:N, or a local tokenizer.json."
        )
    try:
        tokenizer = Tokenizer.from_str(path.read_text(encoding="utf-8"))
    except Exception as error:  # the library raises nothing narrower
        raise DataError(
            f"tokenizer {path}: not a readable tokenizer.json ({type(error).__name__})."
        ) from None
    declared = tokenizer.padding
    found = (tokenizer.token_to_id(name) for name in _OF_PADDING)
    padding = declared["pad_id"] if declared else next((one for one in found if one is not None), None)
    tokenizer.no_padding()
    size = 1 + max(tokenizer.get_vocab().values(), default=0)
    check_count(size, f"tokens in {path}")
    return Encoder(size, padding, tokenizer)
