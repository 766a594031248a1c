"""Where and how something was measured."""

import os
import platform
import shlex
import sys
from collections.abc import Mapping
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

PACKAGES = ("fl-dp", "torch", "torchvision", "opacus")


def circumstances(device: str) -> dict[str, object]:
    return {
        "date": date.today().isoformat(),
        "command": shlex.join(["python", "-m", *_module(), *sys.argv[1:]]),
        "machine": torch.cuda.get_device_name(device) if device.startswith("cuda") else _processor(),
        "load": os.getloadavg()[0],  # of the minute before: other work on the machine
        "versions": {name: _version(name) for name in PACKAGES},
        "python": platform.python_version(),
    }


def in_words(seen: Mapping[str, object]) -> str:
    """One line of Markdown."""
    versions = seen["versions"]
    assert isinstance(versions, Mapping)
    packages = ", ".join(f"{name} {number}" for name, number in versions.items())
    return (
        f"`{seen['command']}`, {seen['date']}: {seen['machine']}, load {seen['load']:.1f} before, "
        f"{platform.system()}, Python {seen['python']}, {packages}."
    )


def _module() -> list[str]:
    spec = sys.modules["__main__"].__spec__
    return [spec.name] if spec else [sys.argv[0]]


def _processor() -> str:
    """The processor's name, from /proc/cpuinfo where there is one."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{len(names)} x {names[0]}" if names else platform.machine()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
