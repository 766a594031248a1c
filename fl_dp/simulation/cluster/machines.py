"""What a simulation asks of Ray: which machines there are, and actors on them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import ray

from fl_dp.simulation.actor.training_actor import TrainingActor
from fl_dp.simulation.work import ActorSettings


@dataclass(frozen=True, slots=True)
class Node:
    """What one machine has: cores and GPUs, and bytes of memory for tasks (Ray leaves out its store)."""

    cpus: float
    gpus: float
    memory: int


def nodes() -> list[Node]:
    """The machines that are alive now."""
    return [_node(one["Resources"]) for one in ray.nodes() if one["Alive"]]


def actor_starter(shared: Any, settings: ActorSettings, resources: Mapping[str, float]) -> Callable[[], Any]:
    """What starts an actor: `shared` is a reference to the data; `resources` are Ray's words for its share.

    An actor that dies is not restarted by Ray, which would give its clients to a process that has no sum.
    """
    remote = ray.remote(TrainingActor).options(max_restarts=0, max_task_retries=0, **resources)
    return lambda: remote.remote(shared, settings)


def _node(resources: Mapping[str, float]) -> Node:
    return Node(resources.get("CPU", 0.0), resources.get("GPU", 0.0), int(resources.get("memory", 0)))
