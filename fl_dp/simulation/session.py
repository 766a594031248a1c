"""A simulation from its settings: Ray, the data in its store, the actors, and the grid over them."""

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import ray

from fl_dp.accounting.ledger import Ledger
from fl_dp.config import AUTO, ClientConfig, RunConfig
from fl_dp.data.partition import load_parts
from fl_dp.data.tensor_data import TensorData
from fl_dp.federation.arrays import specs, state_arrays
from fl_dp.models.registry import build_model
from fl_dp.records import RoundPlan
from fl_dp.simulation.clients import SimulatedClients
from fl_dp.simulation.cluster import hirer, nodes
from fl_dp.simulation.crew import Crew
from fl_dp.simulation.grid import Model, SimulationGrid
from fl_dp.simulation.keys import keep_secret, new_secret
from fl_dp.simulation.resources import Share, fitting, places, share
from fl_dp.simulation.shared_data import Parts, SharedData
from fl_dp.simulation.tasks import ActorSettings, RoundWork

logger = logging.getLogger("fl_dp")

SECRET, KERNELS = "secret", "kernels.json"


@dataclass(frozen=True)
class Simulation:
    """What is simulated.

    config: the run; client: the settings of its client 0. folder: where the clients keep what a resumed run
    needs, the secret of all their randomness among it. on_work: told how a round stands.
    """

    config: RunConfig
    client: ClientConfig
    folder: Path
    on_work: Callable[[RoundWork], None]


@contextmanager
def simulated_grid(simulation: Simulation) -> Iterator[SimulationGrid]:
    """The grid of a simulation, with Ray running already. Its actors end with it."""
    config = simulation.config
    train, parts = load_parts(config)
    shared = SharedData.of(train, parts)
    there = nodes()
    one = share(config, there)
    settings = ActorSettings(
        secret=_secret(simulation.folder / SECRET),
        device="cuda" if one.gpus else "cpu",
        threads=one.threads,
        physical_batch_size=config.physical_batch_size,
        memory_mib=config.memory_mib,
    )
    hire = hirer(ray.put(shared), settings, {"num_cpus": one.cpus, "num_gpus": one.gpus})
    at_once = 1 if config.physical_batch_size == AUTO else int(config.physical_batch_size)
    # GPUs hold few contexts beside what steps need: there one actor measures before others are started
    first = 1 if one.gpus else min(places(one, there), config.fit_clients)
    crew = Crew(hire, first, config.client_timeout, at_once)
    crew.start()
    try:
        with Ledger.open(Path(simulation.client.ledger)) as ledger:
            clients = SimulatedClients(simulation.client, Parts(shared), ledger)
            prepare = _Preparation(simulation, crew, one, train)
            yield SimulationGrid(clients, len(shared), crew, prepare, simulation.on_work)
    finally:
        crew.close()


def forget_secret(folder: Path) -> None:
    """Take away what the noise of a run that is over could be taken off with."""
    (folder / SECRET).unlink(missing_ok=True)


def _secret(path: Path) -> bytes:
    """The run's secret: a new one, or that of the run that is resumed."""
    if not path.exists():
        keep_secret(path, new_secret())
    return path.read_bytes()


class _Preparation:
    """What rounds of a model need, found out at the first: kernels, physical batch, number of actors."""

    def __init__(self, simulation: Simulation, crew: Crew, one: Share, like: TensorData) -> None:
        self._simulation, self._crew, self._share = simulation, crew, one
        self._input_shape, self._num_classes = like.input_shape, like.num_classes
        self._models: dict[str, Model] = {}

    def __call__(self, plan: RoundPlan) -> Model:
        if plan.model not in self._models:
            arrays = state_arrays(build_model(plan.model, self._input_shape, self._num_classes, seed=0))
            self._models[plan.model] = Model(specs(arrays), self._measure(plan))
        return self._models[plan.model]

    def _measure(self, plan: RoundPlan) -> Mapping[str, str]:
        measured = self._crew.measure(plan, part=0)
        self._crew.at_once = measured.at_once
        actors = fitting(self._simulation.config, self._share, nodes(), measured)
        self._crew.resize(actors)
        logger.info(
            "%d training processes; a client's step takes %.0f MiB beside its process of %.0f MiB; "
            "at most %d examples at once",
            actors, measured.step_bytes / 2**20, measured.process_bytes / 2**20, measured.at_once,
        )  # fmt: skip
        return _kept(self._simulation.folder / KERNELS, plan.model, measured.kernels)


def _kept(path: Path, model: str, kernels: Mapping[str, str]) -> Mapping[str, str]:
    """The kernels of a run's first measurement, so that a resumed run rounds as it would have."""
    if not path.exists():
        path.write_text(json.dumps({model: dict(kernels)}), encoding="utf-8")
    found: dict[str, dict[str, str]] = json.loads(path.read_text(encoding="utf-8"))
    return found.get(model, kernels)
