"""An aggregation and a server optimizer take one file each, in a simulation and over a resumption, too."""

from typing import Any

TRIMMED_MEAN = '''\
"""The mean without the largest and the smallest value of each number (Yin et al. 2018, arXiv 1803.01498)."""

from collections.abc import Mapping, Sequence

import numpy as np

from fl_dp.federation.server.aggregation import Aggregation, Update
from fl_dp.federation.wire.arrays import ArraySpec, NDArray
from fl_dp.federation.wire.partial_sums import WeightedSum


class TrimmedMean(Aggregation):
    needs_single_updates = True

    def combine(
        self, updates: Sequence[Update], sums: Sequence[WeightedSum], specs: Mapping[str, ArraySpec]
    ) -> dict[str, NDArray]:
        ordered = {name: np.sort([update[name] for update, _ in updates], axis=0) for name in specs}
        return {name: ordered[name][1:-1].mean(0).astype(spec.dtype) for name, spec in specs.items()}


AGGREGATION = TrimmedMean
'''

MOMENTUM = '''\
"""FedOwn (Hsu, Qi, Brown 2019, arXiv 1909.06335)."""

import numpy as np

from fl_dp.federation.server.optimizer import Arrays, ServerOptimizer
from fl_dp.federation.wire.arrays import NDArray


class FedOwn(ServerOptimizer):
    usual_learning_rate = 1.0

    def __init__(self, learning_rate: float) -> None:
        super().__init__(learning_rate)
        self._velocity: dict[str, NDArray] = {}

    def step(self, weights: Arrays, aggregated: Arrays) -> dict[str, NDArray]:
        self._velocity = {
            name: 0.9 * self._velocity.get(name, np.float64(0)) + (target - weights[name])
            for name, target in aggregated.items()
        }
        return {name: (weights[name] + v).astype(weights[name].dtype) for name, v in self._velocity.items()}

    def state(self) -> Arrays:
        return self._velocity

    def restore(self, state: Arrays) -> None:
        self._velocity = dict(state)


SERVER_OPTIMIZER = FedOwn
'''

USE = """\
import sys
import tempfile
from pathlib import Path

import numpy as np

from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.federation.server.aggregating import Aggregating
from fl_dp.federation.server.judging import Judged
from fl_dp.federation.server.replies import Verdict
from fl_dp.federation.server.state import ServerState, read_state, write_state
from fl_dp.federation.wire.arrays import encode, specs

config = RunConfig(aggregation="own-trim", server_optimizer="fedown")
start = {"w": np.zeros(2, np.float32)}
updates = [({"w": np.float32([v, -v])}, 1.0) for v in (1.0, 2.0, 3.0, 1e9)]
judged = Judged(updates=updates, verdicts={v: Verdict("trained", arrays=u) for u, v in zip(updates, "abcd")})


def after(rounds, aggregating, weights):
    for _ in range(rounds):
        weights = aggregating.aggregate(weights, judged)
    return weights


one = Aggregating(config, specs(start))
print(one.needs_single_updates)
straight = after(4, one, encode(start))["w"].numpy()
first = Aggregating(config, specs(start))
half = after(2, first, encode(start))
state = ServerState(
    "r", config.to_flat(), 2, 1.0, "", b"s" * 32, [], (), {"w": half["w"].numpy()}, first.state()
)
with tempfile.TemporaryDirectory() as folder:
    write_state(Path(folder) / "state.npz", state)
    kept = read_state(Path(folder) / "state.npz")
second = Aggregating(config, specs(start))
second.restore(kept.aggregated)
print(np.array_equal(after(2, second, encode(kept.arrays))["w"].numpy(), straight))
print(after(1, Aggregating(config, specs(start)), encode(start))["w"].numpy().tolist() == [2.5, -2.5])
for wrong in ({"aggregation": "trimed-mean"}, {"server_optimizer": "fed-own"}):
    try:
        RunConfig(**wrong)
    except ConfigError as error:
        print(error)
"""


def test_one_file_each(copied: Any) -> None:
    copied.add("federation/server/aggregations/own_trim.py", TRIMMED_MEAN)
    copied.add("federation/server/optimizers/fedown.py", MOMENTUM)
    single, resumed, moved, aggregation, optimizer = copied.lines(USE)
    assert (single, resumed, moved) == ("True", "True", "True")
    assert aggregation == (
        "aggregation = 'trimed-mean': expected krum or mean or median or own-trim or secure or trimmed-mean; "
        "did you mean trimmed-mean?"
    )
    assert optimizer == (
        "server-optimizer = 'fed-own': expected fedadam or fedavg or fedavgm or fedown or fedyogi; "
        "did you mean fedown?"
    )


HALF = """
from fl_dp.federation.server.aggregation import Aggregation


class Half(Aggregation):
    pass


AGGREGATION = Half
"""

CHECK = """
from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.launch.preflight import check_choices

for config in (RunConfig(aggregation="half"), RunConfig(server_optimizer="half"), RunConfig(loss="half")):
    try:
        check_choices(config)
    except ConfigError as error:
        print(error)
"""


def test_a_file_that_is_half_written_is_refused_before_anything_starts(copied: Any) -> None:
    copied.add("federation/server/aggregations/half.py", HALF)
    copied.add("federation/server/optimizers/half.py", "SERVER_OPTIMIZER = 3\n")
    copied.add("training/losses/half.py", "import no_such_package\n")
    aggregation, optimizer, loss = copied.lines(CHECK)
    assert aggregation.startswith(
        "aggregation = 'half': cannot be made: Can't instantiate abstract class Half"
    )
    assert "its SERVER_OPTIMIZER is 3, expected a class" in optimizer
    assert "losses.half cannot be used: ModuleNotFoundError" in loss
