"""The environment of child processes: Flower's state in their own folder, no telemetry."""

import os
from collections.abc import Mapping
from pathlib import Path

_LOOPBACK = "127.0.0.1,localhost"

_QUIET = {
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_TELEMETRY_ENABLED": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "PYTHONUNBUFFERED": "1",  # so that a log ends with the last event, also after SIGKILL
}

# Waiting threads sleep: when they spin, two clients on one machine take ten times as long.
_SHARED = {"OMP_WAIT_POLICY": "PASSIVE"}


def child_environment(
    flower_home: Path, *, threads: int, more: Mapping[str, str] | None = None
) -> dict[str, str]:
    """This process's environment, changed for one that uses Flower.

    flower_home: folder for Flower's state, instead of ~/.flwr. threads: how many the numerical libraries may
    start, unless the environment says so already.
    """
    return {
        **thread_settings(threads),
        **_SHARED,
        **os.environ,
        **without_proxy(),
        **_QUIET,
        "FLWR_HOME": str(flower_home),
        **(more or {}),
    }


def thread_settings(threads: int) -> dict[str, str]:
    """Settings that limit each numerical library to `threads` threads."""
    return {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}


def without_proxy() -> dict[str, str]:
    """Settings that keep requests to this machine away from an HTTP proxy."""
    settings = {}
    for name in ("NO_PROXY", "no_proxy"):
        present = os.environ.get(name)
        settings[name] = f"{present},{_LOOPBACK}" if present else _LOOPBACK
    return settings


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
