"""The exceptions that fl_dp raises. Every one says what is wrong, where, and what to do next.

The text of an `FlDpError` may leave the client: the reason of a declined round reaches the server. It carries
names, shapes and settings, never values from data.
"""

# What ends a process on purpose. All else that a user's code raises over a record is that record's own.
ENDS = (KeyboardInterrupt, GeneratorExit)


class FlDpError(Exception):
    """Root of the tree: an error that fl_dp foresaw, in words of its own."""

    @property
    def own_words(self) -> str:
        """Its text without what it quotes of other code."""
        return str(self)


class ConfigError(FlDpError, ValueError):
    """A setting is missing, unknown, of the wrong type or out of range."""


class AtWorkError(ConfigError):
    """Another process is at work on the same folder."""


class DataError(FlDpError):
    """A data set cannot be found, read or used with the model."""


class TaskError(FlDpError):
    """A task of the user's own cannot be used, or its code has raised. Its text may quote data."""


class TaskNameError(TaskError, ConfigError):
    """The setting `task` names nothing that can be used. Its text names files of the site: it stays there."""


class ModelError(FlDpError):
    """A model cannot be built, or cannot be trained privately."""


class NoRuleError(ModelError):
    """A trainable parameter is used by an operator without a per-example gradient rule."""


class ProbeError(ModelError):
    """A start-up check failed: the engine cannot bound what one example contributes."""


class UnsteadyError(ProbeError):
    """What an example adds depends, in its last bits, on its place in a pass."""


class CallError(ProbeError):
    """The model cannot be called on synthetic examples.

    quoted: what the model raised. Its code may quote what it holds, so that stays on this machine.
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
    """Values that are not finite reached an operator without a rule: nothing says whose gradient they spoil.

    A batch of one example never raises it: a gradient that is not finite counts as zero there, as always.
    """


class AssumedSamplingWarning(UserWarning):
    """An epsilon was asked for whose steps were not seen to be Poisson draws."""


class AccountingError(FlDpError):
    """A privacy cost cannot be computed or a calibration has no solution."""


class LedgerError(FlDpError):
    """The ledger cannot be opened, trusted or written; nothing may be trained."""


class FederationError(FlDpError):
    """A federation cannot go on, or one of its clients cannot be believed."""


class LaunchError(FlDpError):
    """A process could not be started, stopped too early, or ended without a result."""


class DeclinedError(FlDpError):
    """A client will not train this round; the message is the reason, fit for the server."""


class RoundTakenError(DeclinedError):
    """A round was paid for before, and is not repeated: what it has cost is spent already."""


class BudgetExhaustedError(DeclinedError):
    """Not one of the planned steps fits the client's remaining budget."""
