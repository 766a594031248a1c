"""The server's step from the old global weights to the aggregated ones: what `optimizers/` promises."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from fl_dp.choices import SERVER_OPTIMIZERS
from fl_dp.config.flat import AUTO, Auto
from fl_dp.errors import ConfigError
from fl_dp.federation.server.aggregation import made, refuse_unknown
from fl_dp.federation.wire.arrays import NDArray

Arrays = Mapping[str, NDArray]


class ServerOptimizer(ABC):
    """One for a whole run. Post-processing of noised updates: whatever it does costs no privacy.

    usual_learning_rate: where the run config says "auto".
    """

    usual_learning_rate: ClassVar[float]

    def __init__(self, learning_rate: float) -> None:
        self.learning_rate = learning_rate

    @abstractmethod
    def step(self, weights: Arrays, aggregated: Arrays) -> dict[str, NDArray]:
        """The new global weights, in the shapes and types of the old ones, `weights`."""

    def state(self) -> Arrays:
        """What it remembers from round to round, by name; a resumed run gives it back.

        A step makes new arrays and never writes into these: a step that fails is undone by `restore`.
        """
        return {}

    def restore(self, state: Arrays) -> None:
        """Go on from that state; ConfigError for one that is not its own."""
        refuse_unknown(state, {}, f"server optimizer {type(self).__name__}")


def server_optimizer_of(name: str, learning_rate: float | Auto) -> ServerOptimizer:
    """A new one of that name, from its file in `optimizers/`."""
    kind = SERVER_OPTIMIZERS.load(name, type)
    if not issubclass(kind, ServerOptimizer):
        raise ConfigError(
            f"server-optimizer = {name!r}: {kind.__name__} is not a subclass of ServerOptimizer."
        )
    usual = getattr(kind, "usual_learning_rate", None)
    if usual is None:
        raise ConfigError(
            f"server-optimizer = {name!r}: {kind.__name__} has no usual_learning_rate; give it one."
        )
    return made(kind, SERVER_OPTIMIZERS, name, usual if learning_rate == AUTO else float(learning_rate))
