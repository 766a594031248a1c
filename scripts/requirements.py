"""Writes requirements*.txt from poetry.lock: `python -m scripts.requirements [POETRY]`.

POETRY: one with poetry-plugin-export, else the one on PATH. Hashes are those of Linux' wheels.
"""

import re
import subprocess
import sys
import tomllib
from collections.abc import Collection
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name, parse_wheel_filename

ROOT = Path(__file__).parents[1]
CUDA = re.compile("(nvidia|cuda)-|triton$")  # what PyTorch's build on PyPI wants, and one for CPUs does not
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
_ABOVE = "# made by scripts/requirements.py; docs/installing.md says what for\n"


def main(poetry: str = "poetry") -> None:
    lock = tomllib.loads((ROOT / "poetry.lock").read_text())
    allowed = {hash_ for package in lock["package"] for hash_ in hashes(package["files"])}
    site = _export(poetry, allowed, "-E", "report")
    cuda = [one for one in site if CUDA.match(_name(one))]
    for name, blocks in {
        "site": [one for one in site if one not in cuda],
        "cuda": cuda,
    }.items():
        (ROOT / f"requirements-{name}.txt").write_text(_ABOVE + "".join(blocks))
    (ROOT / "requirements-cpu.txt").write_text(_ABOVE + cpu(lock["package"]))
    (ROOT / "requirements.txt").write_text(
        _run(poetry, "export", "--with", "dev,pins", "--without-hashes", "--without-urls")
    )


def cpu(packages: Collection[dict[str, Any]]) -> str:
    """Linux' builds without CUDA, which only PyTorch's own index has."""
    lines = [
        f"{one['name']}=={one['version']}+cpu ; sys_platform == 'linux'\n"
        for one in packages
        if one["name"] in ("torch", "torchvision")
    ]
    return f"--index-url {CPU_INDEX}\n" + "".join(lines)


def hashes(files: Collection[dict[str, str]]) -> set[str]:
    """Of the wheels that Python 3.11 or 3.12 can install on Linux; where there are none, of all files."""
    return {one["hash"] for one in files if _fits(one["file"])} or {one["hash"] for one in files}


def _fits(file: str) -> bool:
    if not file.endswith(".whl"):
        return False
    tags = parse_wheel_filename(file)[3]
    return any(
        tag.interpreter in ("py3", "cp311", "cp312", "py311", "py312")
        or (tag.abi == "abi3" and tag.interpreter.startswith("cp3"))
        for tag in tags
        if tag.platform == "any" or tag.platform.startswith(("manylinux", "linux"))
    )


def _export(poetry: str, allowed: Collection[str], *words: str) -> list[str]:
    """Blocks of lines, one for each package, with the allowed hashes alone."""
    blocks = re.split(r"\n(?=\S)", _run(poetry, "export", "--without-urls", *words).strip())
    return [_with_hashes(block, allowed) for block in blocks]


def _with_hashes(block: str, allowed: Collection[str]) -> str:
    first, *rest = block.replace(" \\", "").splitlines()
    kept = [line for line in rest if line.strip().removeprefix("--hash=") in allowed]
    return " \\\n".join([first, *kept]) + "\n"


def _name(block: str) -> str:
    return canonicalize_name(block.partition("==")[0])


def _run(*words: str) -> str:
    return subprocess.run(words, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    main(*sys.argv[1:])
