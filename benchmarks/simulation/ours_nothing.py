"""fl_dp's own simulation with clients that take no step; all else is as in a run.

    python -m benchmarks.simulation.ours_nothing --clients N --model-bytes N --rounds N --out DIR

This process holds the grid. Ledger, accountant, reports and the server's average are what a run has: every
client pays for one step of a linear model in each round.
"""

import argparse
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
from flwr.supercore.task_identity import TaskIdentity

from benchmarks.simulation.idle_actor import IdleActor
from benchmarks.simulation.rounds import RoundClock
from fl_dp.config.run import RunConfig
from fl_dp.federation.server.run import run_federation
from fl_dp.launch.clients import client_config
from fl_dp.launch.processes import cores
from fl_dp.simulation import session
from fl_dp.simulation.cluster import runtime as ray_runtime
from fl_dp.simulation.session import KeptActors, Simulation, simulated_grid

FEATURES = 10


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    options.out.mkdir(parents=True)
    config = _config(options, _data(options.out / "data.npz", options.clients, options.model_bytes))
    simulation = Simulation(
        config, client_config(config, 0, options.out), options.out, on_work=lambda work: None
    )
    session.TrainingActor = IdleActor  # what a simulation starts
    clock = RoundClock(options.out)
    TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1  # in whose name Flower sends
    ray = ray_runtime.running("", options.out / "ray", cores())
    with ray, closing(KeptActors()) as kept, simulated_grid(simulation, kept) as grid:
        clock.start()
        reports = options.out / "reports"
        run_federation(grid, config.to_flat(), "nothing", reports, on_round=lambda report: clock.tick())


def _data(file: Path, clients: int, model_bytes: int) -> Path:
    """A record for each client, and as many classes as make a linear model `model_bytes` long."""
    classes = model_bytes // (4 * (FEATURES + 1))
    train = np.arange(clients * FEATURES, dtype=np.float32).reshape(
        clients, FEATURES
    )  # a ledger refuses copies
    test = np.zeros((1, FEATURES), np.float32)
    labels = {"y_train": np.zeros(clients, np.int64), "y_test": np.zeros(1, np.int64)}
    np.savez(file, x_train=train, x_test=test, classes=np.arange(classes), **labels)
    return file


def _config(options: argparse.Namespace, data: Path) -> RunConfig:
    return RunConfig(
        data=f"npz:{data}",
        model="linear",
        clients=options.clients,
        min_clients=options.clients,
        fit_clients=options.clients,
        rounds=options.rounds,
        evaluate="off",
        expected_batch_size=1,
        physical_batch_size=1,
        noise_multiplier=1.0,
        epsilon=50.0,  # not what ends a run of a few rounds
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulation.ours_nothing")
    parser.add_argument("--clients", type=int, required=True)
    parser.add_argument("--model-bytes", type=int, required=True)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    return parser


if __name__ == "__main__":
    main()
