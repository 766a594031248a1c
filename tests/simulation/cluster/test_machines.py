"""What Ray is asked for: its living machines, and actors that it never restarts."""

from typing import Any

from fl_dp.simulation.cluster import machines
from fl_dp.simulation.cluster.machines import Node, actor_starter, nodes


def test_nodes_are_the_machines_that_are_alive(monkeypatch):
    found = [
        {"Alive": True, "Resources": {"CPU": 4.0, "GPU": 2.0, "memory": 1024.0, "node:10.0.0.1": 1.0}},
        {"Alive": False, "Resources": {"CPU": 8.0}},
        {"Alive": True, "Resources": {"CPU": 2.0}},
    ]
    monkeypatch.setattr(machines.ray, "nodes", lambda: found)
    assert nodes() == [Node(4.0, 2.0, 1024), Node(2.0, 0.0, 0)]


class Remote:
    """In the place of `ray.remote(TrainingActor)`."""

    def options(self, **options: Any) -> "Remote":
        self.given = options
        return self

    def remote(self, *args: Any) -> tuple[Any, ...]:
        return args


def test_an_actor_gets_its_share_and_is_not_restarted(monkeypatch):
    remote = Remote()
    monkeypatch.setattr(machines.ray, "remote", lambda kind: remote)
    settings: Any = object()
    start = actor_starter("data", settings, {"num_cpus": 0.5})
    assert start() == ("data", settings)
    assert remote.given == {"max_restarts": 0, "max_task_retries": 0, "num_cpus": 0.5}
