"""When, and by which code: what a run says of itself beside its results."""

import hashlib
import platform
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

# What decides how a number comes about. A machine's name and its user are nobody's business.
_PACKAGES = ("fl-dp", "torch", "flwr", "dp-accounting", "numpy", "ray", "opacus", "torchvision")

_CODE = ("*.py", "*.html", "*.css")


def utc_now() -> str:
    """The time, UTC, ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@cache
def versions() -> dict[str, str]:
    """Of Python and of what computes, by name; a package that is not installed is not named."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


@cache
def code_digest() -> str:
    """SHA-256 over fl_dp's own files of code, pages' templates included, by their places in the package."""
    root = Path(__file__).parents[1]
    found, files = hashlib.sha256(), [one for kind in _CODE for one in root.rglob(kind)]
    for file in sorted(files, key=lambda one: one.relative_to(root).as_posix()):
        found.update(f"{file.relative_to(root).as_posix()}\n".encode())
        found.update(hashlib.sha256(file.read_bytes()).digest())
    return found.hexdigest()


def file_digest(path: Path) -> str:
    """SHA-256 of the file's bytes, in hex; empty where there is no file."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError:
        return ""
