"""The base class of `aggregations.py`: how the updates of a round become one."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from fl_dp.accounting.shares import honest_shares
from fl_dp.choices import AGGREGATIONS, Choices
from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.federation.wire.arrays import ArraySpec, NDArray
from fl_dp.federation.wire.partial_sums import WeightedSum

MALICIOUS = "F"  # the argument of an aggregation that assumes so many clients to be malicious
Update = tuple[Mapping[str, NDArray], float]  # a client's arrays, and its weight > 0


class Aggregation(ABC):
    """One instance for a whole run. It post-processes noised updates, so whatever it does costs no privacy.

    needs_single_updates: whether it needs every update separately; otherwise a simulation sends their sums.
    argument: what users may write after the name, as errors call it: F of krum:F. None: nothing. `take` reads
    it. malicious: F, the number of clients in a round that are assumed to be malicious.
    """

    needs_single_updates: ClassVar[bool] = False
    argument: ClassVar[str | None] = None
    malicious: int = 1

    @property
    def least_updates(self) -> int:
        """The fewest updates it can combine; a round with fewer is lost."""
        return 1

    @abstractmethod
    def combine(
        self, updates: Sequence[Update], sums: Sequence[WeightedSum], specs: Mapping[str, ArraySpec]
    ) -> dict[str, NDArray]:
        """One array for each of `specs`, in its shape and type, from at least one update or sum.

        sums: of updates that were added up elsewhere; empty if single updates are needed.
        """

    def take(self, argument: str) -> None:
        """Read what the user wrote after the colon, here F. Override it for another argument.

        ValueError says what was expected.
        """
        if self.argument != MALICIOUS:
            raise ValueError(f"{type(self).__name__} has no method `take` that reads {self.argument}")
        if not argument.isdecimal():
            raise ValueError("expected a number of clients after the colon")
        self.malicious = int(argument)

    def state(self) -> Mapping[str, NDArray]:
        """The arrays kept from round to round, by name; a resumed run restores them."""
        return {}

    def restore(self, state: Mapping[str, NDArray]) -> None:
        """Restore that state; ConfigError if it is not its own."""
        refuse_unknown(state, {}, f"aggregation {type(self).__name__}")


def aggregation_of(value: str) -> Aggregation:
    """A new aggregation by its NAME or NAME:ARGUMENT, from the table in `aggregations.py`."""
    kind = chosen_class(AGGREGATIONS, value, Aggregation)
    argument = AGGREGATIONS.argument(value, kind.argument, optional=True)
    aggregation: Aggregation = made(kind, AGGREGATIONS, value)
    if argument:
        try:
            aggregation.take(argument)
        except ValueError as error:
            raise ConfigError(f"aggregation = {value!r}: {error}.") from None
    return aggregation


def check_aggregation(config: RunConfig) -> None:
    """ConfigError if no round can have as many updates as the aggregation needs."""
    if config.secure:
        honest_shares(config.fit_clients, config.secure_dropouts, config.secure_colluders)
    aggregation = aggregation_of(config.aggregation)
    least = aggregation.least_updates
    if config.fit_clients < least:
        raise ConfigError(
            f"aggregation = {config.aggregation!r}: a round needs {least} updates, and fit-clients = "
            f"{config.fit_clients} can never give them; raise fit-clients, assume fewer malicious clients, "
            "or use median."
        )


def chosen_class(choices: Choices, name: str, base: type) -> type[Any]:
    """The class of that name; ConfigError unless it is a subclass of `base`."""
    kind = choices.load(name, type)
    if not issubclass(kind, base):
        raise ConfigError(f"{choices.key} = {name!r}: {kind.__name__} is not a subclass of {base.__name__}.")
    return kind


def made(kind: type[Any], choices: Choices, name: str, *arguments: object) -> Any:
    """An instance of `kind`; ConfigError if the class is incomplete."""
    try:
        return kind(*arguments)
    except (TypeError, AttributeError) as error:
        raise ConfigError(f"{choices.key} = {name!r}: cannot be made: {error}") from error


def refuse_unknown(state: Mapping[str, NDArray], known: Mapping[str, ArraySpec], whose: str) -> None:
    """ConfigError unless the state holds exactly the known arrays: these names, shapes and types."""
    found = {name: ArraySpec(array.shape, array.dtype) for name, array in state.items()}
    if found != known:
        raise ConfigError(
            f"the run's state holds {sorted(found)[:3]} for {whose}, expected {sorted(known)[:3]}; resume "
            "the run with the fl_dp that started it."
        )
