"""Lists Ray's machines, and starts actors on them."""

from collections.abc import Callable, Mapping
from typing import Any

import ray

from fl_dp.simulation.actor.training_actor import TrainingActor
from fl_dp.simulation.cluster.resources import Node
from fl_dp.simulation.work import ActorSettings


def nodes() -> list[Node]:
    """The machines that are alive now."""
    return [_node(one["Resources"]) for one in ray.nodes() if one["Alive"]]


def actor_starter(shared: Any, settings: ActorSettings, resources: Mapping[str, float]) -> Callable[[], Any]:
    """A function that starts an actor. shared: reference to the data. resources: its share, by Ray's names.

    Ray must not restart an actor that dies: it would send the actor's clients to a process without the sum of
    the clients before them.
    """
    remote = ray.remote(TrainingActor).options(max_restarts=0, max_task_retries=0, **resources)
    return lambda: remote.remote(shared, settings)


def _node(resources: Mapping[str, float]) -> Node:
    return Node(resources.get("CPU", 0.0), resources.get("GPU", 0.0), int(resources.get("memory", 0)))
