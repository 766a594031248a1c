"""Plays as records that fl_dp reads: python prepare.py TEXT TO [--tuning].

TEXT: plays as a text, or the same compressed by gzip; who speaks stands on a line of its own that ends in a
colon. TO: the folder for four files of arrays, all with the same test speakers.

speakers.npz: what each one says, in passages of 64 characters, and whose they are. One speaker in five is a
test speaker, by a hash of the name, so that it stays one whatever else there is. With --tuning these are left
out, and one in five of the others takes their place.

manuals.npz: the manuals of this clone in the same form: English that is public, for weights to start from.

agreed.npz and others.npz: the training speakers again, one in five in the first, by a hash of the name: as if
these had agreed that everybody may read what they say.
"""

import gzip
import hashlib
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

LENGTH = 64  # characters of a passage, and as many next ones
VOCABULARY = "\n" + "".join(map(chr, range(32, 127)))  # what can be printed: declared, not counted
UNKNOWN = "?"  # in the place of all other characters
NOTHING = -100  # a next character that counts nowhere
_PLACE = {character: place for place, character in enumerate(VOCABULARY)}
_CLONE = Path(__file__).parents[2]

Tokens = NDArray[np.int64]
Passages = tuple[Tokens, Tokens]  # (n, LENGTH) each: characters, and the next ones


def speeches(text: str) -> dict[str, str]:
    """All that each one says, by name, in the order of the text. What nobody says is left out."""
    found: dict[str, list[str]] = {}
    speaker = None
    for block in re.split(r"\n{2,}", text):
        first, _, rest = block.strip("\n").partition("\n")
        if first.endswith(":"):
            speaker, block = first[:-1], rest
        if speaker is not None and block.strip():
            found.setdefault(speaker, []).append(block.strip("\n"))
    return {name: "\n".join(said) for name, said in found.items()}


def passages(text: str) -> Passages:
    """Passages of LENGTH + 1 characters that share none; what is left at the end is dropped.

    A text that is shorter than one is one passage, filled up by what counts nowhere; of less than two
    characters none.
    """
    tokens = np.array([_PLACE.get(character, _PLACE[UNKNOWN]) for character in text], dtype=np.int64)
    if len(tokens) < 2:
        return np.zeros((0, LENGTH), np.int64), np.zeros((0, LENGTH), np.int64)
    if len(tokens) <= LENGTH:
        x, y = np.zeros((1, LENGTH), np.int64), np.full((1, LENGTH), NOTHING)
        x[0, : len(tokens) - 1], y[0, : len(tokens) - 1] = tokens[:-1], tokens[1:]
        return x, y
    count = len(tokens) // (LENGTH + 1)
    rows = tokens[: count * (LENGTH + 1)].reshape(count, LENGTH + 1)
    return rows[:, :-1], rows[:, 1:]


def part(speaker: str, tuning: bool) -> str:
    """train, test, or none: the test speakers are never seen in tuning."""
    if _one_in_five(speaker, 0):
        return "" if tuning else "test"
    return "test" if tuning and _one_in_five(speaker, 1) else "train"


def has_agreed(speaker: str) -> bool:
    return _one_in_five(speaker, 2)


def _one_in_five(speaker: str, question: int) -> bool:
    """Drawn by the name, for each question anew."""
    digest = hashlib.sha256(speaker.encode()).digest()
    return int.from_bytes(digest[8 * question : 8 * question + 8]) % 5 == 0


def write(file: Path, splits: Mapping[str, Sequence[tuple[str, str]]]) -> None:
    """splits: by name of the split, whose each text is, and the text."""
    arrays = {"vocabulary": np.array(len(VOCABULARY))}
    for split, texts in splits.items():
        found = [(name, *passages(text)) for name, text in texts]
        arrays[f"x_{split}"] = np.concatenate([x for _, x, _ in found])
        arrays[f"y_{split}"] = np.concatenate([y for _, _, y in found])
        arrays[f"groups_{split}"] = np.array([name for name, x, _ in found for _ in range(len(x))])
        speakers = len(set(arrays[f"groups_{split}"]))
        print(f"{file}: {split}, {len(arrays[f'x_{split}'])} passages of {speakers}")
    file.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(file, **arrays)


def main(source: Path, target: Path, tuning: bool = False) -> None:
    content = source.read_bytes()
    text = (gzip.decompress(content) if source.suffix == ".gz" else content).decode("utf-8")
    all_said = speeches(text)
    test, train = (
        [(one, all_said[one]) for one in all_said if part(one, tuning) == k] for k in ("test", "train")
    )
    files = [_CLONE / "README.md", *sorted((_CLONE / "docs").glob("*.md"))]
    parts = {
        "speakers": train,
        "manuals": [(file.name, file.read_text(encoding="utf-8")) for file in files],
        "agreed": [(name, text) for name, text in train if has_agreed(name)],
        "others": [(name, text) for name, text in train if not has_agreed(name)],
    }
    for name, texts in parts.items():
        write(target / f"{name}.npz", {"train": texts, "test": test})


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4) or sys.argv[3:] not in ([], ["--tuning"]):
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]), tuning=len(sys.argv) == 4)
