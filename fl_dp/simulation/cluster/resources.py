"""How many actors a simulation has, and how much of a machine each actor gets."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fl_dp.config.flat import AUTO, Auto
from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.simulation.work import Measured

USABLE = 0.8  # of a machine's memory; the rest is for what was not measured
RESOLUTION = 10_000  # Ray counts cores and GPUs in units of 1 / RESOLUTION


@dataclass(frozen=True, slots=True)
class Node:
    """One machine's resources. memory: bytes for processes, without Ray's store."""

    cpus: float
    gpus: float
    memory: int


@dataclass(frozen=True, slots=True)
class Share:
    """One actor's share of a machine: cores and GPUs, both maybe fractions."""

    cpus: float
    gpus: float

    @property
    def threads(self) -> int:
        """The number of threads: all actors together have one for each core."""
        return max(1, int(self.cpus))


def share(config: RunConfig, nodes: Sequence[Node]) -> Share:
    """An actor's share. ConfigError if no machine has as much.

    "auto": on CPUs, a core for each actor; on GPUs, as many actors for each GPU as there are cores for it.
    Memory may allow fewer actors, see `fitting`.
    """
    gpus = _uses_gpus(config, nodes)
    if not gpus:
        found = Share(_part_of_one(_number(config.clients_per_cpu, 1.0)), 0.0)
    else:
        richest = max(nodes, key=lambda node: node.gpus)
        per_gpu = _number(config.clients_per_gpu, max(1.0, richest.cpus // richest.gpus))
        if per_gpu < 1 and not (1 / per_gpu).is_integer():
            raise ConfigError(
                f"clients-per-gpu = {per_gpu:g}: a client can have several GPUs only as whole ones; "
                "expected at least 1, or 1/2, 1/3, ..."
            )
        found = Share(min(1.0, _part_of_one(per_gpu * richest.gpus / richest.cpus)), _part_of_one(per_gpu))
    if not places(found, nodes):
        raise ConfigError(
            f"clients-per-cpu = {config.clients_per_cpu}, clients-per-gpu = {config.clients_per_gpu}: a "
            f"client needs {found.cpus:g} cores and {found.gpus:g} GPUs, and no machine has that many; raise "
            "them, or leave them at 'auto'."
        )
    return found


def places(one: Share, nodes: Sequence[Node]) -> int:
    """How many actors with that share the machines have room for."""
    return sum(_on(node, one) for node in nodes)


def by_memory(config: RunConfig, one: Share, measured: Measured) -> Share:
    """The share, enlarged so that no GPU gets more actors than its memory holds, if their number is "auto".

    To limit their number would not do: Ray fills one GPU before it takes the next.
    """
    if not (one.gpus and config.clients_per_gpu == AUTO and measured.gpu_bytes):
        return one
    per_gpu = max(1, int(USABLE * measured.gpu_total // measured.gpu_bytes))
    return replace(one, gpus=max(one.gpus, _part_of_one(per_gpu)))


def fitting(config: RunConfig, one: Share, nodes: Sequence[Node], measured: Measured) -> int:
    """How many actors to have: at least one, and at most as many as there are places, or clients in a round.

    one: see `by_memory`. Without GPUs, if the number is "auto", at most as many as fit the memory, by the
    measurement of one step.
    """
    most = min(places(one, nodes), config.fit_clients)
    if not one.gpus and config.clients_per_cpu == AUTO:
        need = measured.process_bytes + measured.step_bytes
        most = min(most, sum(min(_on(node, one), int(USABLE * node.memory // need)) for node in nodes))
    return max(1, most)


def _on(node: Node, one: Share) -> int:
    """Actors on one machine."""
    pairs = ((node.cpus, one.cpus), (node.gpus, one.gpus))
    return min(round(have * RESOLUTION) // round(part * RESOLUTION) for have, part in pairs if part)


def _part_of_one(number: float) -> float:
    """1 / number, rounded down to Ray's resolution, so that `number` of them always fit."""
    return max(1, math.floor(RESOLUTION / number)) / RESOLUTION


def _uses_gpus(config: RunConfig, nodes: Sequence[Node]) -> bool:
    found = any(node.gpus for node in nodes)
    if config.device.startswith("cuda") and not found:
        raise ConfigError(
            f"device = {config.device!r}: no machine has a GPU; 'auto' uses GPUs where there are some."
        )
    return found and config.device != "cpu"


def _number(setting: float | Auto, automatic: float) -> float:
    return automatic if setting == AUTO else float(setting)
