"""Writes made-up records of three sites and of the server, as arrays, as tables and as images.

Usage: python make_data.py FOLDER
"""

import csv
import sys
from pathlib import Path

import numpy as np
from PIL import Image

SITES = ("0", "1", "2", "server")  # a simulation's clients have numbers for names
RECORDS = 400
CLASSES = ("low", "high")


def main(folder: Path) -> None:
    for kind in ("arrays", "tables", "images"):
        (folder / kind).mkdir(parents=True, exist_ok=True)
    for number, site in enumerate(SITES):
        rng = np.random.default_rng(number)
        write_arrays(folder / "arrays" / f"{site}.npz", site, rng)
        write_table(folder / "tables" / f"{site}.csv", rng)
        write_images(folder / "images" / site, rng)


def write_arrays(file: Path, site: str, rng: np.random.Generator) -> None:
    """Windows of a signal, (n, 32), and a label; the server's are test records, and a site needs none."""
    x = rng.normal(size=(RECORDS, 32)).astype(np.float32)
    y = (x[:, :8].sum(axis=1) > 0).astype(np.int64)
    split = "test" if site == "server" else "train"
    np.savez(file, **{f"x_{split}": x, f"y_{split}": y}, classes=np.array(CLASSES))


def write_table(file: Path, rng: np.random.Generator) -> None:
    with file.open("w", newline="") as opened:
        writer = csv.writer(opened)
        writer.writerow(["age", "weight", "smoker", "pressure"])
        for _ in range(RECORDS):
            age, smoker = int(rng.integers(20, 90)), rng.choice(["yes", "no"])
            weight = round(float(rng.normal(75, 12)), 1)
            high = age + weight / 2 + 20 * (smoker == "yes") + rng.normal(0, 10) > 102
            writer.writerow([age, weight, smoker, CLASSES[int(high)]])


def write_images(folder: Path, rng: np.random.Generator) -> None:
    """Grey squares: the "high" ones are brighter at the top."""
    for split, count in (("train", 100), ("test", 25)):
        for label, name in enumerate(CLASSES):
            (folder / split / name).mkdir(parents=True, exist_ok=True)
            for number in range(count):
                pixels = rng.integers(0, 128, (12, 12), dtype=np.uint8)
                pixels[:6] += np.uint8(80 * label)
                Image.fromarray(pixels, "L").save(folder / split / name / f"{number}.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
