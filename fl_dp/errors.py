"""The exceptions that fl_dp raises; every one says what, where and what next.

Text of an `FlDpError` may leave the client (a decline's reason reaches the server), so it carries
names, shapes and settings, never values from data.
"""


class FlDpError(Exception):
    """Root of the tree: an error that fl_dp foresaw and worded."""


class ConfigError(FlDpError, ValueError):
    """A setting is missing, unknown, of the wrong type or out of range."""


class DataError(FlDpError):
    """A data set cannot be found, read or used with the model."""


class ModelError(FlDpError):
    """A model cannot be built, or cannot be trained privately."""


class NoRuleError(ModelError):
    """A trainable parameter is used by an operator without a per-example gradient rule."""


class ProbeError(ModelError):
    """A start-up check failed: the engine cannot bound what one example contributes."""


class NonFiniteError(ModelError):
    """Values that are not finite reached an operator without a rule: whose they are cannot be told.

    A batch of one example never raises it: there the gradient counts as zero, like any that is not finite.
    """


class AccountingError(FlDpError):
    """A privacy cost cannot be computed or a calibration has no solution."""


class LedgerError(FlDpError):
    """The ledger cannot be opened, trusted or written; nothing may be trained."""


class FederationError(FlDpError):
    """A federation cannot go on, or one of its members cannot be believed."""


class DeclinedError(FlDpError):
    """A client will not train this round; the message is the reason, fit for the server."""


class BudgetExhaustedError(DeclinedError):
    """Not one of the planned steps fits the client's remaining budget."""
