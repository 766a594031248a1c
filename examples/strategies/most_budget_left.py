"""Clients with the most budget left train first: a strategy with one part of its own.

    ./run.sh --simulate --set strategy=examples/strategies/most_budget_left.py:most_budget_left 10 10 3 9

A server's strategy is made of six parts (fl_dp/federation/server/strategy.py). Whoever replaces one
keeps the others: here who trains is chosen otherwise, and what a client claims is still judged, its budget
still a wall, and every epsilon still recomputed.
"""

from collections.abc import Callable, Mapping, Sequence

from fl_dp.config.run import RunConfig
from fl_dp.federation.server.choose import ClientChoice
from fl_dp.federation.server.client_record import ClientRecord
from fl_dp.federation.server.strategy import StrategyParts, usual_parts
from fl_dp.federation.wire.arrays import ArraySpec
from fl_dp.federation.wire.send_receive import BaseGrid


class MostBudgetLeft(ClientChoice):
    """Those with the most epsilon left, by name where they have as much."""

    def choose(self, grid: BaseGrid, server_round: int) -> Sequence[ClientRecord]:
        able = self.able(grid)
        return sorted(able, key=lambda one: (one.cost.epsilon - one.budget.epsilon, one.name))[
            : self.config.fit_clients
        ]


def most_budget_left(
    config: RunConfig, run: str, shared: Mapping[str, ArraySpec], on_registered: Callable[[], None]
) -> StrategyParts:
    """The usual parts, and this choice."""
    parts = usual_parts(config, run, shared, on_registered)
    parts.choosing = MostBudgetLeft(config, parts.registration, on_registered)
    return parts
