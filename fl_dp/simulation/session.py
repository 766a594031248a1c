"""Sets up a simulation: Ray, the data in its object store, the actors, and the grid over them."""

import hashlib
import json
import logging
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ray

from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.config.client import ClientConfig
from fl_dp.config.flat import AUTO
from fl_dp.config.run import RunConfig
from fl_dp.config.task import TaskSettings
from fl_dp.data.persons import by_unit
from fl_dp.data.tensor_data import TensorData
from fl_dp.durable_files import private_folder, write_whole
from fl_dp.errors import ConfigError
from fl_dp.federation.client.kept_states import FOLDER, KeptStates
from fl_dp.federation.wire.arrays import specs, state_arrays
from fl_dp.form import Form
from fl_dp.records import RoundPlan
from fl_dp.simulation.actor.shared_data import SharedData, SharedParts
from fl_dp.simulation.actor.training_actor import TrainingActor
from fl_dp.simulation.actor_pool import ActorPool
from fl_dp.simulation.clients import SimulatedClients
from fl_dp.simulation.cluster.resources import Node, Share, by_memory, fitting, places, share
from fl_dp.simulation.grid import RoundModel, SimulationGrid
from fl_dp.simulation.work import ActorSettings, Measured, RoundWork, given_task
from fl_dp.tasks.identity import code_identity
from fl_dp.tasks.load import new_model, task_of
from fl_dp.tasks.records import divided, files_read, load_parts
from fl_dp.training.local_algorithm import has_own_models

logger = logging.getLogger("fl_dp")

SECRET, SHAPES = "secret", "shapes.json"
SECRET_BYTES = 32


@dataclass(frozen=True)
class Simulation:
    """The settings of a simulation.

    config: the run's; client: those of its client 0. folder: where the clients keep what a resumed run needs.
    on_work: called with the progress of a round.
    """

    config: RunConfig
    client: ClientConfig
    folder: Path
    on_work: Callable[[RoundWork], None]


@contextmanager
def simulated_grid(simulation: Simulation, kept: "KeptActors") -> Iterator[SimulationGrid]:
    """The grid of a simulation; Ray must be running. Its actors stay with `kept`."""
    config = simulation.config
    train, all_parts = load_parts(config)
    parts, held_out = divided(config, simulation.client, train, all_parts)
    actors = kept.for_run(config, SharedData.of(by_unit(train, config), parts), train.form)
    with Ledger.open(Path(simulation.client.ledger), one_run=simulation.client.one_run_ledger) as ledger:
        clients = SimulatedClients(
            simulation.client,
            SharedParts(actors.shared, files_read(config)),
            ledger,
            KeptStates(simulation.folder / FOLDER),
            held_out,
        )
        prepare = _Preparation(simulation, actors, train)
        yield SimulationGrid(clients, len(parts), actors.pool, prepare, simulation.on_work)
    actors.pool.rest()


def name_in_ledger(simulation: Simulation) -> str:
    """The run's name in the ledger, the same for a resumed run. Ray must be running."""
    return run_name(kept_secret(simulation.folder / SECRET), _device(share(simulation.config, nodes())))


def run_name(secret: bytes, device: str) -> str:
    """A run's name in the ledger, where each round of one name is paid for once.

    Keyed BLAKE2 reveals nothing of the secret, so nobody else can begin a round under the run's name. The
    name depends on the kind of device, because another one would round differently.
    """
    return hashlib.blake2b(f"run on {device}".encode(), key=secret, digest_size=8).hexdigest()


def kept_secret(path: Path) -> bytes:
    """The secret in the file `path`; if there is none, a new one, which is on the disk when this returns.

    Only its owner can read the file. ConfigError if it is damaged: a shorter key could be guessed.
    """
    if not path.exists():
        private_folder(path.parent)
        secret = secrets.token_bytes(SECRET_BYTES)  # no random number of the training comes from it
        write_whole(path, lambda file: file.write(secret), secret=True)
    secret = path.read_bytes()
    if len(secret) != SECRET_BYTES:
        raise ConfigError(f"{path}: is damaged; the run cannot be resumed, start a new one.")
    return secret


def forget_run(folder: Path, config: RunConfig) -> None:
    """Delete, after the run, the secret behind its name in the ledger and what its clients have kept.

    Models of the clients' own stay: the run was for them.
    """
    (folder / SECRET).unlink(missing_ok=True)
    if not has_own_models(config.local_algorithm, config.personal):
        shutil.rmtree(folder / FOLDER, ignore_errors=True)


def _device(one: Share) -> str:
    return "cuda" if one.gpus else "cpu"


class Actors:
    """The actors of a run, or of several that need the same, and what was measured in them.

    needs: all that decides what an actor is, besides the records. stored: reference to the records. shared:
    the same without their features, because this process trains no client. share: of a machine, for actors
    that start from now on.
    """

    def __init__(
        self,
        needs: tuple[object, ...],
        settings: ActorSettings,
        share: Share,
        shared: SharedData,
        first: int,
        timeout: float,
    ) -> None:
        """first: how many to start at once. timeout: as in `ActorPool`."""
        self.needs, self.share, self._settings = needs, share, settings
        self._store(shared)
        batch = settings.physical_batch_size
        self.pool = ActorPool(self.start_actor, first, timeout, 1 if batch == AUTO else int(batch))
        self.pool.start()
        self._measured: dict[RoundPlan, Measured] = {}

    def start_actor(self) -> Any:
        """A handle of a new actor.

        Ray must not restart an actor that dies: it would send the actor's clients to a process without the
        sum of the clients before them.
        """
        resources = {"num_cpus": self.share.cpus, "num_gpus": self.share.gpus}
        remote = ray.remote(TrainingActor).options(max_restarts=0, max_task_retries=0, **resources)
        return remote.remote(self.stored, self._settings)

    def use(self, shared: SharedData) -> None:
        """Train clients of these records from now on. Nothing is sent if the records are the same."""
        if not shared.holds_the_same(self.shared):
            self._store(shared)
            self.pool.call_first(lambda handle: handle.use.remote(self.stored))

    def measure(self, plan: RoundPlan) -> Measured:
        """What an actor measured of a client's step: once for all plans whose passes are the same."""
        noisy = float(plan.noise_multiplier > 0)
        kind = replace(
            plan, run="", origin="", server_round=0, steps=1, learning_rate=1.0, noise_multiplier=noisy
        )
        if kind not in self._measured:
            self._measured[kind] = self.pool.measure(plan)
        return self._measured[kind]

    def _store(self, shared: SharedData) -> None:
        self.stored = ray.put(shared.with_inputs())
        self.shared = replace(ray.get(self.stored), inputs=None)


class KeptActors:
    """Keeps the actors of the last run for the next run, if that needs the same; one run at a time."""

    def __init__(self) -> None:
        self._actors: Actors | None = None

    def for_run(self, config: RunConfig, shared: SharedData, form: Form) -> Actors:
        """Actors for this run: those of the last run only if this run needs the same. form: of a record."""
        there = nodes()
        one = share(config, there)
        settings = ActorSettings(
            task=TaskSettings(**config.of_task()),
            device=_device(one),
            threads=one.threads,
            physical_batch_size=config.physical_batch_size,
            memory_mib=config.memory_mib,
            given=given_task(config.task),
        )
        code, timeout = code_identity(task_of(config)), config.round_timeout
        needs = settings, form, code, one, config.clients_per_gpu, timeout
        last = self._actors
        if last and last.needs == needs and not last.pool.ran_short:
            last.use(shared)
            return last
        self.close()
        # a GPU has room for few contexts besides what steps need: one actor measures before others start
        first = 1 if one.gpus else min(places(one, there), config.fit_clients)
        self._actors = Actors(needs, settings, one, shared, first, timeout)
        return self._actors

    def close(self) -> None:
        if self._actors:
            self._actors.pool.close()
        self._actors = None


class _Preparation:
    """What rounds of a model need, measured before the first: kernels, physical batch, memory of an actor.

    The number of actors is determined for each round, because machines may have come or gone.
    """

    def __init__(self, simulation: Simulation, actors: Actors, like: TensorData) -> None:
        self._simulation, self._actors = simulation, actors
        self._task = task_of(simulation.config)
        self._task.form = like.form
        self._models: dict[str, tuple[RoundModel, Measured]] = {}
        self._number = 0

    def __call__(self, plan: RoundPlan) -> RoundModel:
        if plan.model not in self._models:
            arrays = specs(state_arrays(new_model(self._task)))
            measured = _kept(self._simulation.folder / SHAPES, plan.model, self._actors.measure(plan))
            self._actors.pool.at_once = measured.at_once
            logger.info(
                "a training process takes %.0f MiB; at most %d examples at once",
                (measured.process_bytes + measured.step_bytes) / 2**20,
                measured.at_once,
            )
            self._models[plan.model] = RoundModel(arrays, measured.kernels), measured
        model, measured = self._models[plan.model]
        self._resize(measured)
        return model

    def _resize(self, measured: Measured) -> None:
        config, actors = self._simulation.config, self._actors
        actors.share = by_memory(config, actors.share, measured)
        number = fitting(config, actors.share, nodes(), measured)
        if number != self._number:
            logger.info("%d training processes", number)
        self._number = number
        actors.pool.resize(number)


def _kept(path: Path, model: str, measured: Measured) -> Measured:
    """`measured` with the kernels and rows of the run's first measurement, so that rounding stays the same.

    Fewer rows if there is less memory now.
    """
    if not path.exists():
        text = json.dumps({model: {"at_once": measured.at_once, "kernels": dict(measured.kernels)}})
        write_whole(path, lambda file: file.write(text.encode()))
    found: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    if model not in found:
        return measured
    rows = min(found[model]["at_once"], measured.most)
    return replace(measured, kernels=found[model]["kernels"], at_once=rows)


def nodes() -> list[Node]:
    """The machines that are alive now."""
    return [_node(one["Resources"]) for one in ray.nodes() if one["Alive"]]


def _node(resources: Mapping[str, float]) -> Node:
    return Node(resources.get("CPU", 0.0), resources.get("GPU", 0.0), int(resources.get("memory", 0)))
