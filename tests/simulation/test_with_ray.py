"""The same promises with Ray's processes, killed for real."""

import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray

from fl_dp.config.run import RunConfig
from fl_dp.errors import FederationError
from fl_dp.simulation import session
from fl_dp.simulation.actor_pool import ActorPool
from fl_dp.simulation.cluster import runtime as ray_runtime
from fl_dp.simulation.cluster.resources import Share, share
from fl_dp.simulation.grid import TOO_LATE

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning:ray"),
]
CLIENTS = 12
CORES = 2


@pytest.fixture(scope="module", autouse=True)
def _ray(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    scratch = Path("/tmp") / f"fl-dp-test-{os.getpid()}"  # sockets want a short path
    with ray_runtime.running("", scratch, CORES):
        ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
        yield
        ray.cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


class Unable(session.TrainingActor):
    """Does not start."""

    def __init__(self, *args: Any) -> None:
        raise ModuleNotFoundError("No module named 'fl_dp'")


def watched(folder: Path, habits: dict[str, str]) -> type:
    """A TrainingActor that tells in `folder` which process it is in, and whose clients have these habits."""

    class Watched(session.TrainingActor):
        def _train(self, item: Any) -> Any:
            (folder / f"{os.getpid()}.pid").touch()
            match habits.get(item.client):
                case "ends its process":
                    os.kill(os.getpid(), signal.SIGKILL)
                case "hangs":
                    time.sleep(1000)
                case "raises":
                    raise ValueError("patient 17")
            return super()._train(item)

    return Watched


@pytest.fixture
def pool_of(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    pools = []

    def make(federation: Any, kind: type) -> ActorPool:
        monkeypatch.setattr(session, "TrainingActor", kind)
        actors = session.Actors(
            (), federation.settings(), Share(1, 0), federation.shared, first=CORES, timeout=60.0
        )
        pools.append(actors.pool)
        return pools[-1]

    yield make
    for pool in pools:
        pool.close()


def close(one: Any, other: Any) -> bool:
    return all(np.abs(one[name] - other[name]).max() <= 1e-6 * np.abs(other[name]).max() for name in other)


def kill(folder: Path, number: int, delay: float) -> int:
    """Kill up to `number` processes that have trained, after `delay` seconds; how many there were."""
    time.sleep(delay)
    killed = 0
    for file in folder.glob("*.pid"):
        if killed == number:
            break
        # A process that was killed in the middle of a task may have told of itself once more.
        with suppress(ProcessLookupError):
            os.kill(int(file.stem), signal.SIGKILL)
            killed += 1
        file.unlink(missing_ok=True)
    return killed


def test_twenty_rounds_with_processes_killed_at_random(two_federations, pool_of):
    """In four rounds one, at any moment; in one all of them at once."""
    disturbed, calm = two_federations
    luck = random.Random(3)
    strikes = {3: 1, 7: 1, 11: CORES, 15: 1, 18: 1}
    pool = pool_of(disturbed, watched(disturbed.folder, {}))
    models, kills = [], []
    for federation in two_federations:
        grid, arrays = federation.grid(pool), None
        for server_round in range(1, 21):
            number = strikes.get(server_round, 0) if federation is disturbed else 0
            with ThreadPoolExecutor() as threads:
                struck = threads.submit(kill, federation.folder, number, luck.uniform(0.0, 0.1))
                answers = federation.round(grid, federation.messages(server_round, arrays=arrays))
                kills.append(struck.result())
            assert not answers.refused
            assert len(answers.spent) == CLIENTS
            arrays = answers.average
        models.append(arrays)
    assert sum(kills) >= len(strikes)
    assert close(*models)
    assert disturbed.steps() == calm.steps() == dict.fromkeys(range(CLIENTS), 40)


def test_a_round_of_clients_that_misbehave(two_federations, pool_of):
    federation, without = two_federations
    last = CLIENTS - 1  # trained last, by itself: what waits behind one that hangs is late with it
    habits = {"1": "ends its process", str(last): "hangs", "8": "raises"}
    pool = pool_of(federation, watched(federation.folder, habits))
    answers = federation.round(federation.grid(pool), federation.messages(ttl=45.0))
    assert answers.refused == {
        1: "its process ended while it was trained (killed, or out of memory)",
        8: "an unexpected error; its own log says which",
        last: TOO_LATE,
    }
    assert federation.steps() == dict.fromkeys(range(CLIENTS), 2)
    fine = [message for k, message in enumerate(without.messages()) if k not in answers.refused]
    expected = without.round(without.grid(pool), fine)
    assert close(answers.average, expected.average)


def test_processes_that_do_not_start(federation, pool_of):
    grid = federation.grid(pool_of(federation, Unable))
    with pytest.raises(FederationError, match=r"do not start: ModuleNotFoundError: No module named 'fl_dp'$"):
        federation.round(grid, federation.messages())


def test_ray_grants_the_shares_that_are_counted():
    """Seven to a core: were a seventh rounded up, only six would ever come."""
    there = session.nodes()
    assert [(node.cpus, node.gpus) for node in there] == [(CORES, 0)]
    assert there[0].memory > 2**28
    one = share(RunConfig(clients=100, fit_clients=100, clients_per_cpu=7.0), there)
    kept = ray.remote(_Idle).options(num_cpus=one.cpus * 6).remote()
    seventh = ray.remote(_Idle).options(num_cpus=one.cpus + CORES - 1).remote()
    assert ray.get([kept.ready.remote(), seventh.ready.remote()], timeout=60) == [None, None]
    ray.kill(kept)
    ray.kill(seventh)


class _Idle:
    def ready(self) -> None: ...
