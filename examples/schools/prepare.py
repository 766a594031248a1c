"""One file for each of the 139 schools, as fl_dp reads them: python prepare.py SCHOOL.mat TO [SEEDS].

SCHOOL.mat: the data set School as it comes with private-cross-silo-fl (README.md). For each seed from 0 on a
folder TO/seed-N with 0.npz to 138.npz: training records and test records of a school, a fifth of its own,
drawn by the seed as Liu et al. do. Nothing is fitted on records: `scaled` has constants alone.
"""

import sys
from pathlib import Path

import numpy as np
from scipy.io import loadmat
from sklearn.model_selection import train_test_split

SCHOOLS = 139
COLUMNS = 28  # 26 indicators and shares of the pupil, the year and the school, and a 1 in the last
PERCENTAGES = (3, 4)  # of a school: pupils with free meals, pupils in the highest band of verbal reasoning
LOWEST, HIGHEST = 1, 70  # examination scores: the scale's ends
TEST_SHARE = 0.2


def main(source: Path, target: Path, seeds: int = 5) -> None:
    schools = read(source)
    for seed in range(seeds):
        folder = target / f"seed-{seed}"
        folder.mkdir(parents=True, exist_ok=True)
        for number, (x, y) in enumerate(schools):
            np.savez(folder / f"{number}.npz", **parts(x, y, seed))  # type: ignore[arg-type]
        print(f"{folder}: {len(schools)} schools, {sum(len(y) for _, y in schools)} records")


def read(source: Path) -> list[tuple[np.ndarray, np.ndarray]]:
    """Each school's inputs (n, 27) and targets (n,), scaled."""
    file = loadmat(source)
    schools = list(zip(file["X"].ravel(), file["Y"].ravel(), strict=True))
    if len(schools) != SCHOOLS or any(x.shape[1:] != (COLUMNS,) for x, _ in schools):
        sys.exit(f"prepare.py: {source}: expected {SCHOOLS} schools of {COLUMNS} columns each.")
    return [scaled(x, y.ravel()) for x, y in schools]


def scaled(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Percentages and scores on 0 to 1; indicators stay; the last column is the model's own constant."""
    inputs = x[:, :-1].astype(np.float32)
    inputs[:, PERCENTAGES] /= 100
    return inputs, ((y.astype(np.float32) - LOWEST) / (HIGHEST - LOWEST)).astype(np.float32)


def parts(x: np.ndarray, y: np.ndarray, seed: int) -> dict[str, np.ndarray]:
    """The arrays of one school's file."""
    x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=TEST_SHARE, random_state=seed)
    return {"x_train": x_train, "y_train": y_train, "x_test": x_test, "y_test": y_test}


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4) or not all(word.isdecimal() for word in sys.argv[3:]):
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:]))
