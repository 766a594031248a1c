"""What a launch tells the shell, and the error that ends one."""

from enum import IntEnum

from fl_dp.errors import FlDpError


class ExitCode(IntEnum):
    """Exit codes of every command that runs a federation."""

    TRAINED = 0
    FAILED = 1
    USAGE = 2
    BUDGET_EXHAUSTED = 3
    INTERRUPTED = 130  # 128 + SIGINT, as shells report it


class LaunchError(FlDpError):
    """A process could not be started, stopped too early, or ended without a result."""
