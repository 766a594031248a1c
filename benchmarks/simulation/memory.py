"""What memory this machine has to give (Linux)."""

from pathlib import Path


def available_bytes() -> int:
    """MemAvailable of /proc/meminfo: what a process may take before others suffer."""
    lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
