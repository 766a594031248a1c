"""Movie reviews of Pang and Lee (2005) as text files that fl_dp reads: python prepare.py FROM TO.

FROM: a folder with rt-polarity.pos and rt-polarity.neg, as they come or compressed by gzip. One review in
five becomes a test review, by a hash of it, so that it stays one whatever else there is.
"""

import gzip
import hashlib
import sys
from pathlib import Path

KINDS = ("neg", "pos")


def main(source: Path, target: Path) -> None:
    for kind in KINDS:
        reviews = [line.strip() for line in _read(source / f"rt-polarity.{kind}").split("\n")]
        for split in ("train", "test"):
            chosen = [one for one in reviews if one and _is_test(one) == (split == "test")]
            (target / split).mkdir(parents=True, exist_ok=True)
            (target / split / f"{kind}.txt").write_text("\n".join(chosen) + "\n", encoding="utf-8")
            print(f"{target / split / kind}.txt: {len(chosen)} reviews")


def _read(file: Path) -> str:
    packed = file.with_name(f"{file.name}.gz")
    content = gzip.decompress(packed.read_bytes()) if packed.is_file() else file.read_bytes()
    return content.decode("latin-1")


def _is_test(review: str) -> bool:
    return hashlib.sha256(review.encode()).digest()[0] % 5 == 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
