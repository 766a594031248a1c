"""The exceptions that fl_dp raises. Every one says what is wrong, where, and what to do next.

The text of an `FlDpError` may leave the client: the reason of a declined round reaches the server. It carries
names, shapes and settings, never values from data.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

# Exceptions that end a process on purpose. Any other that a user's code raises on a record is that record's.
ENDS = (KeyboardInterrupt, GeneratorExit)


def words_of(error: BaseException) -> str:
    """The error's text for a log; or its type, as a user's exception may have no text."""
    try:
        return str(error)
    except BaseException as another:
        if isinstance(another, ENDS):
            raise
        return type(error).__name__


class FlDpError(Exception):
    """Base class of errors that fl_dp expects and explains itself."""

    @property
    def own_words(self) -> str:
        """The text without quotations from other code."""
        return str(self)


class ConfigError(FlDpError, ValueError):
    """A setting is missing, unknown, of the wrong type or out of range."""


class AtWorkError(ConfigError):
    """Another process is at work on the same folder."""


class DataError(FlDpError):
    """A data set cannot be found, read or used with the model. The text may name files and count records, and
    never leaves that machine (`federation.client.payment.refusal_of`).
    """


@contextmanager
def located(where: object) -> Iterator[None]:
    """Within the block, a DataError's text begins with `where`: a file or a column."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{where}: {error}") from None


class TaskError(FlDpError):
    """A user's own task cannot be used, or its code has raised. The text may quote data."""


class TaskNameError(TaskError, ConfigError):
    """The setting `task` names nothing usable. The text names files of the site and does not leave it."""


class ModelError(FlDpError):
    """A model cannot be built, or cannot be trained privately."""


class NoRuleError(ModelError):
    """A trainable parameter is used by an operator without a per-example gradient rule."""


class ProbeError(ModelError):
    """A start-up check failed: the engine cannot bound what one example contributes."""


class UnseenUseError(ProbeError):
    """A parameter is used in a way that the check of the model did not see."""


class UnsteadyError(ProbeError):
    """The last bits of an example's contribution depend on its place in a pass."""


class CallError(ProbeError):
    """The model cannot be called on synthetic examples.

    quoted: what the model raised. It may quote what the model holds, so it stays on this machine.
    """

    def __init__(self, words: str, quoted: str) -> None:
        super().__init__(words, quoted)

    @property
    def own_words(self) -> str:
        return str(self.args[0])

    def __str__(self) -> str:
        words, quoted = self.args
        return f"{words} The model's own words: {quoted}" if quoted else words


class NonFiniteError(ModelError):
    """Non-finite values reached an operator without a rule, so that their example is unknown.

    A batch of one example never raises it: its gradient counts as zero, as any non-finite gradient does.
    """


class AssumedSamplingWarning(UserWarning):
    """An epsilon was requested for steps that were not observed to be Poisson draws.

    Example:
        >>> import warnings, fl_dp
        >>> warnings.filterwarnings("error", category=fl_dp.AssumedSamplingWarning)
    """


class AccountingError(FlDpError):
    """A privacy cost cannot be computed, or a calibration has no solution."""


class LedgerError(FlDpError):
    """The ledger cannot be opened, trusted or written; nothing may be trained."""


class FederationError(FlDpError):
    """A federation cannot continue, or a client's claim does not hold."""


class LaunchError(FlDpError):
    """A process could not be started, stopped too early, or ended without a result."""


class DeclinedError(FlDpError):
    """A client will not train this round; the message is the reason and may be sent to the server."""


class RoundTakenError(DeclinedError):
    """A round was already paid for and is not repeated; its cost remains spent."""


class BudgetExhaustedError(DeclinedError):
    """None of the planned steps fits the client's remaining budget."""


class ExitCode(IntEnum):
    """Exit codes of every command that runs a federation."""

    TRAINED = 0
    FAILED = 1
    USAGE = 2
    BUDGET_EXHAUSTED = 3
    INTERRUPTED = 130  # 128 + SIGINT, as shells report it
