"""What of fl_dp's environment a helper would ask first, and what is wrong with it: `fl-dp doctor`.

Nothing here reads records, keys or what a ledger holds: the answer is written for a public report.
"""

import os
import platform
import re
import shutil
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from packaging.requirements import Requirement

from fl_dp.accounting.ledger.files import LEDGER, lasting_ledger
from fl_dp.optional import EXTRAS
from fl_dp.steady_math import machine

_GIB = 2**30
_SHOWN = ("torch", "flwr", "ray", "dp-accounting", "cryptography", "numpy")
_ROOM = 2 * _GIB  # less is too little for a run's models, logs and ledger


@dataclass(frozen=True)
class Finding:
    """A line of what is there; wrong: what to do about it, empty where all is well."""

    name: str
    words: str
    wrong: str = ""


def find_environment() -> Iterator[Finding]:
    yield Finding("fl_dp", f"{version('fl-dp')}, Python {platform.python_version()}, {platform.platform()}")
    own = sys.prefix != sys.base_prefix
    yield Finding("interpreter", "of a virtual environment" if own else "of the machine, no environment")
    yield _packages()
    yield from _extras()
    yield _machine()
    yield _devices()
    yield _disk()
    yield _ledger()


def _packages() -> Finding:
    """Those that move results or fail most, and every one that is not what fl_dp asks for."""
    found = ", ".join(f"{name} {_version(name) or 'missing'}" for name in _SHOWN)
    wrong = [_otherwise(one) for one in _asked("") if not _fits(one)]
    return Finding("packages", found, f"{'; '.join(wrong)}; install fl_dp anew" if wrong else "")


def _extras() -> Iterator[Finding]:
    base = set(map(str, _asked("")))
    for extra in dict.fromkeys(EXTRAS.values()):
        missing = [one.name for one in _asked(extra) if str(one) not in base and not _fits(one)]
        yield Finding(f"extra {extra}", f"without {', '.join(missing)}" if missing else "installed")


def _asked(extra: str) -> list[Requirement]:
    """What fl_dp asks for on this machine, with an extra or with none."""
    every = map(Requirement, requires("fl-dp") or ())
    return [one for one in every if one.marker is None or one.marker.evaluate({"extra": extra})]


def _fits(wanted: Requirement) -> bool:
    there = _version(wanted.name)
    return there is not None and wanted.specifier.contains(there, prereleases=True)


def _otherwise(wanted: Requirement) -> str:
    return f"{wanted.name} is {_version(wanted.name) or 'missing'}, expected {wanted.specifier or 'any'}"


def _machine() -> Finding:
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / _GIB
    processor = re.sub(r"model name\s*:\s*", "", machine()).strip()
    return Finding(
        "machine", f"{os.cpu_count()} cores, {memory:.1f} GiB, load {os.getloadavg()[0]:.1f}; {processor}"
    )


def _devices() -> Finding:
    import torch

    if not torch.cuda.is_available():
        return Finding("GPU", f"none that PyTorch {torch.__version__} sees")
    names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return Finding("GPU", f"{', '.join(names)}; CUDA {torch.version.cuda}")


def _disk() -> Finding:
    free = shutil.disk_usage(Path.cwd()).free
    words = f"{free / _GIB:.1f} GiB are free in this folder"
    return Finding("disk", words, "make room, or work in another folder" if free < _ROOM else "")


def _ledger() -> Finding:
    """Whether the ledger of this account's real clients can be used; never what stands in it."""
    path = lasting_ledger() / LEDGER
    if not path.exists():
        return Finding("ledger", "none yet, of clients without --ledger")
    mode = path.stat().st_mode
    open_to_others = mode & (stat.S_IRWXG | stat.S_IRWXO)
    usable = os.access(path, os.R_OK | os.W_OK)
    wrong = "others than its owner can open it: chmod 600" if open_to_others else ""
    return Finding("ledger", "there", wrong if usable else "this account cannot read and write it")


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None
