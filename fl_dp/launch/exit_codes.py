"""What a launch tells the shell."""

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of every command that runs a federation."""

    TRAINED = 0
    FAILED = 1
    USAGE = 2
    BUDGET_EXHAUSTED = 3
    INTERRUPTED = 130  # 128 + SIGINT, as shells report it
