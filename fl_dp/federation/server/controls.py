"""The server's control variates, if a run's local algorithm has them: the mean of the clients' own."""

from collections.abc import Mapping

import numpy as np

from fl_dp.config.run import RunConfig
from fl_dp.config.run_settings import UNIFORM
from fl_dp.errors import ConfigError
from fl_dp.federation.server.aggregation import refuse_unknown
from fl_dp.federation.wire.arrays import ArraySpec, NDArray
from fl_dp.federation.wire.round_arrays import control_specs, is_controlled
from fl_dp.records import MOST_WEIGHT


class Controls:
    """c <- c + share * change (Noble et al. 2022, algorithm 1), where `share` of all clients gave the change.

    Empty for algorithms without control variates. shared: the arrays that clients send back. ConfigError if
    changes would be weighted or selected, because their sum would not be the change of the mean.
    """

    def __init__(self, config: RunConfig, shared: Mapping[str, ArraySpec]) -> None:
        check_controls(config)
        self.specs = control_specs(dict(shared), config.local_algorithm)
        self._clients = config.clients
        self.arrays: dict[str, NDArray] = {  # by name, as clients get them
            name: np.zeros(spec.shape, spec.dtype) for name, spec in self.specs.items()
        }

    def move(self, changes: Mapping[str, NDArray], updates: int) -> None:
        """Apply the aggregated changes of so many clients. NaN becomes 0; values stay within MOST_WEIGHT."""
        share = updates / self._clients
        for name, array in self.arrays.items():
            moved = array.astype(np.float64) + share * changes[name].astype(np.float64)
            kept = np.clip(np.nan_to_num(moved, nan=0.0), -MOST_WEIGHT, MOST_WEIGHT)
            self.arrays[name] = kept.astype(array.dtype)

    def restore(self, state: Mapping[str, NDArray]) -> None:
        """Restore these arrays; ConfigError if they are not the run's."""
        refuse_unknown(state, self.specs, "the local algorithm's control variates")
        self.arrays = dict(state)


def check_controls(config: RunConfig) -> None:
    """ConfigError if a local algorithm's control variates would not be the mean of all clients' own."""
    if not is_controlled(config.local_algorithm):
        return
    if (config.weights, config.aggregation) != (UNIFORM, "mean"):
        raise ConfigError(
            f"local-algorithm = {config.local_algorithm}: needs weights = {UNIFORM} and aggregation = mean, "
            f"not {config.weights} and {config.aggregation}: control variates are a mean of all clients' own."
        )
