"""`make wheel`: a wheel and a source distribution of the checkout, by poetry-core."""

import argparse
import os
from pathlib import Path

from poetry.core.masonry.api import build_sdist, build_wheel

ROOT = Path(__file__).parents[1]


def build(folder: Path) -> tuple[Path, Path]:
    """Both in `folder`: the wheel's path and the source distribution's."""
    folder.mkdir(parents=True, exist_ok=True)
    target, here = folder.resolve(), Path.cwd()
    os.chdir(ROOT)  # which poetry-core builds
    try:
        return target / build_wheel(str(target)), target / build_sdist(str(target))
    finally:
        os.chdir(here)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    for file in build(parser.parse_args().folder):
        print(file)


if __name__ == "__main__":
    main()
