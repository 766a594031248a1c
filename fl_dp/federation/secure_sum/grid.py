"""A grid whose rounds are secure sums: five stages between it and the members, one sum for the strategy.

To the strategy it is a grid that adds up (`wire/partial_sums.py`): it asks every client for a round, and gets
each client's report, and one sum in integers. In between an attempt is begun with all that were asked. Who
does not come as far as the masks has paid nothing; the others then begin another attempt, with new keys, for
the same round. Who is lost later is a drop-out.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from flwr.app import Error, Message, RecordDict
from flwr.common.constant import ErrorCode
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid

from fl_dp.clean_text import one_line
from fl_dp.config.run import RunConfig
from fl_dp.federation.secure_sum.attempt import Attempt, Outcome
from fl_dp.federation.secure_sum.wire import SECURE_SUM
from fl_dp.federation.wire.arrays import ArraySpec
from fl_dp.federation.wire.messages import plan_only, refusal_to_content
from fl_dp.federation.wire.older_grid import OlderGrid
from fl_dp.federation.wire.partial_sums import make_group
from fl_dp.kits.roster import Site
from fl_dp.records import Refusal

logger = logging.getLogger("fl_dp")

KEY_SECONDS = 60.0  # that a stage without training may take
_PAUSE = 0.02  # seconds between two looks at a stage, where the grid below does not wait itself


class SecureGrid(OlderGrid):
    """grid: the one below. site_of: who is at a node. expected: what members give, in the model's shapes."""

    adds_up = True

    def __init__(
        self, grid: Grid, config: RunConfig, site_of: Callable[[int], Site | None]
    ) -> None:
        self._grid, self._config, self._site_of = grid, config, site_of
        self._asked: dict[str, Message] = {}  # rounds that are not answered, by message
        self._replies: dict[str, Message] = {}
        self._attempt: Attempt | None = None
        self._number = 0

    def set_run(self, run: Any) -> None:
        self._grid.set_run(run)

    @property
    def run(self) -> Any:
        return self._grid.run

    def get_node_ids(self) -> Iterable[int]:
        return self._grid.get_node_ids()

    def get_nodes(self) -> Iterable[NodeInfo]:
        return self._grid.get_nodes()
