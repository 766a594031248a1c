"""Movie reviews of Pang and Lee (2005) as text files that fl_dp reads: python prepare.py FROM TO [--tuning].

FROM: a folder with rt-polarity.pos and rt-polarity.neg, as they come or compressed by gzip. One review in
five becomes a test review, by a hash of it, so that it stays one whatever else there is. With --tuning the
test reviews are left out, and one in five of the others takes their place. The lexicon is that of the package
vaderSentiment (MIT licence).
"""

import gzip
import hashlib
import sys
from importlib.util import find_spec
from pathlib import Path

KINDS = ("neg", "pos")


def main(source: Path, target: Path, tuning: bool = False) -> None:
    for kind in KINDS:
        reviews = [line.strip() for line in _read(source / f"rt-polarity.{kind}").split("\n")]
        parts = [(one, _part(one, tuning)) for one in reviews if one]
        for split in ("train", "test"):
            chosen = [one for one, part in parts if part == split]
            (target / split).mkdir(parents=True, exist_ok=True)
            (target / split / f"{kind}.txt").write_text("\n".join(chosen) + "\n", encoding="utf-8")
            print(f"{target / split / kind}.txt: {len(chosen)} reviews")


def lexicon(target: Path) -> None:
    """Words and their valences, in the order of the alphabet; without marks and phrases."""
    package = find_spec("vaderSentiment")
    if package is None or package.origin is None:
        sys.exit("prepare.py: the lexicon comes with a package: pip install vaderSentiment==3.3.2")
    lines = Path(package.origin).with_name("vader_lexicon.txt").read_text(encoding="utf-8").split("\n")
    valence = {line.split("\t")[0]: line.split("\t")[1] for line in lines if line.strip()}
    words = sorted(word for word in valence if word.isalpha() and word.islower())
    text = "".join(f"{word}\t{valence[word]}\n" for word in words)
    (target / "lexicon.txt").write_text(text, encoding="utf-8")
    print(f"{target / 'lexicon.txt'}: {len(words)} words")


def _read(file: Path) -> str:
    packed = file.with_name(f"{file.name}.gz")
    content = gzip.decompress(packed.read_bytes()) if packed.is_file() else file.read_bytes()
    return content.decode("latin-1")


def _part(review: str, tuning: bool) -> str:
    """train, test, or none: the test reviews are never seen in tuning."""
    first, second = hashlib.sha256(review.encode()).digest()[:2]
    if first % 5 == 0:
        return "" if tuning else "test"
    return "test" if tuning and second % 5 == 0 else "train"


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4) or sys.argv[3:] not in ([], ["--tuning"]):
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]), tuning=len(sys.argv) == 4)
    lexicon(Path(sys.argv[2]))
