"""How many actors there are: never more than cores, GPUs, memory and clients allow."""

from typing import Any

import pytest

from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.simulation.cluster.resources import USABLE, Share, by_memory, fitting, places, share
from fl_dp.simulation.session import Node
from fl_dp.simulation.work import Measured

GIB = 2**30
LAPTOP = Node(8, 0, 16 * GIB)
SERVER = Node(32, 4, 256 * GIB)


def config(**settings: Any) -> RunConfig:
    return RunConfig(clients=1000, fit_clients=500, **settings)


def measured(process: int = 0, step: int = 0, gpu: int = 0, gpu_total: int = 0) -> Measured:
    return Measured({}, 64, step, process, gpu, gpu_total)


@pytest.mark.parametrize(
    ("settings", "node", "expected", "actors", "threads"),
    [
        ({}, LAPTOP, Share(1, 0), 8, 1),
        ({"clients_per_cpu": 0.5}, LAPTOP, Share(2, 0), 4, 2),
        ({"clients_per_cpu": 2.0}, LAPTOP, Share(0.5, 0), 16, 1),
        ({"clients_per_cpu": 3.0}, LAPTOP, Share(0.3333, 0), 24, 1),
        ({"clients_per_cpu": 7.0}, LAPTOP, Share(0.1428, 0), 56, 1),
        ({}, SERVER, Share(1, 0.125), 32, 1),
        ({"device": "cpu"}, SERVER, Share(1, 0), 32, 1),
        ({"clients_per_gpu": 1.0}, SERVER, Share(1, 1), 4, 1),
        ({"clients_per_gpu": 3.0}, SERVER, Share(1, 0.3333), 12, 1),
        ({"clients_per_gpu": 16.0}, SERVER, Share(0.5, 0.0625), 64, 1),
        ({"clients_per_gpu": 0.5, "device": "cuda"}, SERVER, Share(1, 2), 2, 1),
        ({}, Node(2, 1, GIB), Share(1, 0.5), 2, 1),
        ({}, Node(1, 2, GIB), Share(0.5, 1), 2, 1),
    ],
)
def test_shares_and_places(settings, node, expected, actors, threads):
    one = share(config(**settings), [node])
    assert one == expected
    assert places(one, [node]) == actors
    assert one.threads == threads
    assert actors * one.cpus <= node.cpus


def test_a_machine_without_room_does_not_count():
    two_cores = Share(2, 0)
    assert places(two_cores, [LAPTOP, Node(1, 0, GIB), Node(0, 0, GIB)]) == 4


@pytest.mark.parametrize(
    ("settings", "node", "words"),
    [
        ({"clients_per_cpu": 0.1}, LAPTOP, "10 cores and 0 GPUs, and no machine has that many"),
        ({"device": "cuda"}, LAPTOP, "no machine has a GPU"),
        ({"clients_per_gpu": 0.2}, SERVER, "no machine has that many"),
        ({"clients_per_gpu": 0.4}, SERVER, "whole ones"),
    ],
)
def test_what_no_machine_has_is_refused(settings, node, words):
    with pytest.raises(ConfigError, match=words):
        share(config(**settings), [node])


def test_memory_decides_only_where_the_number_is_auto():
    need = measured(process=GIB, step=GIB)
    fit = int(USABLE * 16 / 2)
    assert fitting(config(), Share(1, 0), [LAPTOP], need) == fit
    assert fitting(config(), Share(1, 0), [LAPTOP, LAPTOP], need) == 2 * fit
    assert fitting(config(clients_per_cpu=1.0), Share(1, 0), [LAPTOP], need) == 8


def test_each_machines_memory_counts_for_its_own_actors():
    small, large = Node(8, 0, 2 * GIB), Node(8, 0, 64 * GIB)
    assert fitting(config(), Share(1, 0), [small, large], measured(process=GIB)) == 1 + 8


def test_memory_of_gpus():
    need, one = measured(gpu=10 * GIB, gpu_total=40 * GIB), Share(1, 0.125)
    assert by_memory(config(), one, need) == Share(1, 0.3333)
    assert fitting(config(), by_memory(config(), one, need), [SERVER], need) == 4 * 3
    assert by_memory(config(clients_per_gpu=8.0), one, need) == one
    assert by_memory(config(), one, measured(gpu=GIB, gpu_total=40 * GIB)) == one
    assert by_memory(config(), one, measured(gpu=39 * GIB, gpu_total=40 * GIB)) == Share(1, 1)


def test_at_least_one_and_no_more_than_clients():
    assert fitting(config(), Share(1, 0), [LAPTOP], measured(process=64 * GIB)) == 1
    few = RunConfig(clients=3, fit_clients=3)
    assert fitting(few, Share(1, 0), [LAPTOP], measured(process=GIB)) == 3
