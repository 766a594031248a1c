"""The six parts of the server's strategy, and how a run makes them where nobody has made others."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fl_dp.config.run import RunConfig
from fl_dp.federation.server.aggregating import Aggregating
from fl_dp.federation.server.asking import Asking
from fl_dp.federation.server.choosing import Choosing
from fl_dp.federation.server.judging import Judging
from fl_dp.federation.server.registration import Registration
from fl_dp.federation.server.reporting import Reporting
from fl_dp.federation.server.secure_aggregating import SecureAggregating
from fl_dp.federation.server.secure_asking import SecureAsking
from fl_dp.federation.wire.arrays import ArraySpec


@dataclass(slots=True)
class StrategyParts:
    """What the strategy is made of. Another federation replaces one of them; each file says its promise."""

    registration: Registration
    choosing: Choosing
    asking: Asking
    judging: Judging
    aggregating: Aggregating
    reporting: Reporting


def usual_parts(
    config: RunConfig, run: str, shared: Mapping[str, ArraySpec], on_registered: Callable[[], None]
) -> StrategyParts:
    """The parts of a run as its config has them."""
    aggregating = aggregating_of(config, shared)
    registration = Registration(config, aggregating.least_asked)
    asking = SecureAsking(config, run, registration, list(shared)) if config.secure else Asking(config, run)
    return StrategyParts(
        registration,
        Choosing(config, registration, on_registered),
        asking,
        Judging(registration, aggregating.expected),
        aggregating,
        Reporting(config, registration),
    )


def aggregating_of(config: RunConfig, shared: Mapping[str, ArraySpec]) -> Aggregating:
    """The part that makes new weights of a round, as the config has it."""
    return SecureAggregating(config, shared) if config.secure else Aggregating(config, shared)
