"""Reviews as tokens, by public rules alone: a list of common words, a public lexicon, and hashes.

Nothing is counted in the reviews. `data = "text:FOLDER"` is what prepare.py has written: train/, test/ and
lexicon.txt.
"""

import re
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

import torch
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from fl_dp import Task
from fl_dp.data.stable_split import record_digest
from fl_dp.data.tensor_data import Split, TensorData
from fl_dp.errors import DataError

PADDING = 0
BUCKETS = 16384  # of words that the lexicon does not have
CLASSES = ("neg", "pos")
KEPT = "but cannot enough least less more most much never no nor not nothing only too very well without"
COMMON = ENGLISH_STOP_WORDS - set(KEPT.split())  # those that say little about good or bad
BEGINNINGS = (4, 5)  # letters: amusing, amused and amusement begin alike
_WORD = re.compile(r"\w+")

Lexicon = dict[str, float]  # a word's valence, -4 to 4


class Reviews(Task):
    """Reviews as tokens (n, `tokens`). beginnings: whether the first letters of words are tokens, too."""

    beginnings = False

    def train_data(self) -> TensorData:
        return self._reviews("train")

    def test_data(self) -> TensorData:
        return self._reviews("test")

    def meaning(self) -> str:
        """Sites must have the same lexicon: it says which token a word is."""
        return _lexicon_file(self.settings.data).read_text(encoding="utf-8")

    @property
    def lexicon(self) -> Lexicon:
        return read_lexicon(_lexicon_file(self.settings.data))

    def _reviews(self, split: Split) -> TensorData:
        folder, lexicon = _folder(self.settings.data), self.lexicon
        places = {word: place for place, word in enumerate(lexicon, start=1)}
        rows, labels, raw = [], [], []
        for label, kind in enumerate(CLASSES):
            for line in _lines(folder / split / f"{kind}.txt"):
                rows.append([_token(word, places) for word in words_of(line, self.beginnings)])
                labels.append(label)
                raw.append(record_digest(kind.encode(), line.encode()))  # as `text:` knows them
        tokens = torch.full((len(rows), self.settings.tokens), PADDING)
        for row, found in zip(tokens, rows, strict=True):
            row[: len(found)] = torch.tensor(found[: len(row)], dtype=torch.int64)
        return TensorData(tokens, torch.tensor(labels), CLASSES, vocabulary_size(lexicon), raw=tuple(raw))


def words_of(review: str, beginnings: bool) -> list[str]:
    """Its words in small letters, common ones left out; and with `<` the beginnings of the longer ones."""
    words = [word for word in _WORD.findall(review.lower()) if word not in COMMON]
    return words + [f"<{word[:k]}" for k in BEGINNINGS for word in words if beginnings and len(word) > k]


def vocabulary_size(lexicon: Lexicon) -> int:
    """Padding, the lexicon's words in its order, and the buckets of all others."""
    return 1 + len(lexicon) + BUCKETS


def valences(lexicon: Lexicon) -> torch.Tensor:
    """(vocabulary,) of each token, -1 to 1; 0 where the lexicon says nothing."""
    found = torch.zeros(vocabulary_size(lexicon))
    found[1 : 1 + len(lexicon)] = torch.tensor(list(lexicon.values())) / 4
    return found


def read_lexicon(file: Path) -> Lexicon:
    """Lines of a word, a tab and its valence, as prepare.py writes them."""
    if not file.is_file():
        raise DataError(f"{file}: no such file; expected the lexicon that prepare.py writes there.")
    pairs = (line.split("\t") for line in _lines(file))
    return {word: float(valence) for word, valence in pairs}


def _token(word: str, places: dict[str, int]) -> int:
    digest = blake2b(word.encode(), digest_size=8).digest()
    return places.get(word) or 1 + len(places) + int.from_bytes(digest, "big") % BUCKETS


def _lines(file: Path) -> Iterator[str]:
    return (line for line in file.read_text(encoding="utf-8").split("\n") if line.strip())


def _folder(data: str) -> Path:
    return Path(data.removeprefix("text:")).expanduser()


def _lexicon_file(data: str) -> Path:
    return _folder(data) / "lexicon.txt"
