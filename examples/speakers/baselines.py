"""What perplexities on the test speakers are compared with: python baselines.py FOLDER.

FOLDER: what prepare.py has written. Best possible: of the test text itself, which nobody has beforehand. Of
the training speakers: counted without privacy.
"""

import math
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Pairs = NDArray[np.float64]  # (vocabulary, vocabulary): how often the second follows the first


def pairs(x: NDArray[np.int64], y: NDArray[np.int64], vocabulary: int) -> Pairs:
    """Of passages (n, T) and their next characters, where these count."""
    found = np.zeros((vocabulary, vocabulary))
    np.add.at(found, (x[y >= 0], y[y >= 0]), 1.0)
    return found


def perplexity(expected: Pairs, test: Pairs) -> float:
    """expected: (vocabulary, vocabulary) by each character the next one's probability; rows add up to 1."""
    there = test > 0
    return math.exp(-(test[there] * np.log(expected[there])).sum() / test.sum())


def by_frequency(counts: Pairs) -> Pairs:
    """The next one as often as it is in all, whatever is before it."""
    share = counts.sum(0) / counts.sum()
    return np.broadcast_to(share, counts.shape)


def by_the_last(counts: Pairs, more: float) -> Pairs:
    """The next one as often as it follows. Each row is given `more` of the frequencies, so that none is 0."""
    counts = counts + more * by_frequency(counts + 1 / len(counts))
    return counts / np.maximum(counts.sum(1, keepdims=True), np.finfo(float).tiny)


def baselines(folder: Path) -> dict[str, float]:
    with np.load(folder / "speakers.npz") as file:
        vocabulary = int(file["vocabulary"])
        train, test = (pairs(file[f"x_{one}"], file[f"y_{one}"], vocabulary) for one in ("train", "test"))
    with np.load(folder / "manuals.npz") as file:
        manuals = pairs(file["x_train"], file["y_train"], vocabulary)
    return {
        "all characters alike": float(vocabulary),
        "frequencies, best possible": perplexity(by_frequency(test), test),
        "frequencies in the manuals": perplexity(by_frequency(manuals + 1 / vocabulary), test),
        "pairs, best possible": perplexity(by_the_last(test, 0.0), test),
        "pairs of the training speakers": perplexity(by_the_last(train, 1.0), test),
        "pairs of the manuals": perplexity(by_the_last(manuals, 1.0), test),
    }


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for name, found in baselines(Path(sys.argv[1])).items():
        print(f"{found:6.2f}  {name}")
