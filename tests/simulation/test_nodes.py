"""A cluster of several Ray nodes on this machine: nodes go and come, and no round is lost."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.cluster_utils import Cluster

from fl_dp.config.run import RunConfig
from fl_dp.federation.server.run import run_federation
from fl_dp.launch.clients import client_config
from fl_dp.records import RoundPlan
from fl_dp.simulation import session
from fl_dp.simulation.actor_pool import ActorPool
from fl_dp.simulation.cluster import runtime as ray_runtime
from fl_dp.simulation.session import KeptActors, Simulation, simulated_grid
from fl_dp.simulation.work import Measured

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning:ray"),
]
CLIENTS, ROUNDS = 12, 14
CONFIG = RunConfig(
    clients=CLIENTS,
    min_clients=CLIENTS,
    fit_clients=CLIENTS,
    rounds=ROUNDS,
    expected_batch_size=16,
    physical_batch_size=16,
)
NODES = 3


@pytest.fixture
def nodes() -> Iterator[Cluster]:
    """A head and two more nodes, of one core each."""
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    for _ in range(NODES - 1):
        made.add_node(num_cpus=1)
    made.wait_for_nodes()
    yield made
    made.shutdown()


class Slow(session.TrainingActor):
    """Slow enough to be struck in the middle of a round."""

    def _train(self, item: Any) -> Any:
        time.sleep(0.1)
        return super()._train(item)


def run(folder: Path, secret: bytes, on_work: Callable[[Any], None]) -> list[dict[str, Any]]:
    """A federation on whatever nodes there are: its reports, without what depends on the time."""
    clients = folder / "clients"
    clients.mkdir(parents=True)
    (clients / "secret").write_bytes(secret)
    simulation = Simulation(CONFIG, client_config(CONFIG, 0, clients), clients, on_work)
    reports: list[dict[str, Any]] = []
    with closing(KeptActors()) as kept, simulated_grid(simulation, kept) as grid:
        run_federation(
            grid, CONFIG.to_flat(), "run", folder / "out", on_round=lambda one: reports.append(one.to_dict())
        )
    for report in reports:
        del report["seconds"]
    return reports


@pytest.fixture
def one_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    """All runs take the kernels and the rows that the first one chose: a clock decides, and sums round so."""
    found: list[Measured] = []
    measure = ActorPool.measure

    def once(self: ActorPool, plan: RoundPlan) -> Measured:
        if not found:
            found.append(measure(self, plan))
        return found[0]

    monkeypatch.setattr(ActorPool, "measure", once)


def test_a_node_dies_in_a_round_and_another_one_comes(
    nodes, tmp_path, monkeypatch, known_keys, one_measurement
):
    """Rounds before the loss are as if nothing happened. In later ones a client that was begun again may have
    other noise, as its sum may round otherwise; who takes part and what it costs is the same.
    """
    seen: dict[int, int] = {}
    lost = next(iter(nodes.worker_nodes))

    def strike(work: Any) -> None:
        seen[work.server_round] = work.actors
        if work.server_round == 2 and 0 < work.over < CLIENTS and lost in nodes.worker_nodes:
            nodes.remove_node(lost, allow_graceful=False)
        if work.server_round == 5 and work.ended:
            nodes.add_node(num_cpus=1)
        if work.server_round > 5 and work.ended and work.actors < NODES:
            time.sleep(1.0)  # a process takes seconds to start, and a round does not

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        with ray_runtime.running(nodes.address, tmp_path, 1):
            with monkeypatch.context() as patch:
                patch.setattr(session, "TrainingActor", Slow)
                disturbed = run(tmp_path / "disturbed", b"s" * 32, strike)
            calm = run(tmp_path / "calm", b"s" * 32, lambda work: None)
    finally:
        ray.cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    assert lost not in nodes.worker_nodes
    assert seen[4] == NODES - 1
    assert seen[ROUNDS] == NODES
    assert len(disturbed) == ROUNDS
    assert disturbed[0]["loss"] == pytest.approx(calm[0]["loss"], rel=1e-6)
    for one, other in zip(disturbed, calm, strict=True):
        assert one.pop("loss") == pytest.approx(other.pop("loss"), rel=0.5)
        assert one.pop("accuracy") == pytest.approx(other.pop("accuracy"), abs=0.3)
        assert one == other
        assert {client["status"] for client in one["clients"].values()} == {"trained"}
