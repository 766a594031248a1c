"""Flower's own simulation over Ray, in a script of its own: its FedAvg, its Grid, its actors.

    python -m benchmarks.simulation.flower nothing --clients N --model-bytes N ...
    python -m benchmarks.simulation.flower sgd --federation NAME --data-root DIR ...

This process holds the Grid.
"""

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

from benchmarks.simulation.federation import FEDERATIONS
from benchmarks.simulation.rounds import RoundClock

ARRAYS = 8  # as many as the tanh CNN has


class AllMustAnswer(FedAvg):
    """A client that fails is an error: a round without it would be measured as a faster one."""

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        answers = list(replies)
        reasons = [str(answer.error.reason) for answer in answers if answer.has_error()]
        if reasons or len(answers) < self.min_train_nodes:
            raise RuntimeError(f"Round {server_round}: {len(answers)} answers. {' '.join(reasons[:1])}")
        return super().aggregate_train(server_round, answers)


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    server, clients = _doing_nothing(options) if options.client == "nothing" else _training(options)
    # A core of Ray's means one client at a time; so many run at once.
    resources = {
        "init_args": {"num_cpus": options.at_once},
        "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
    }
    run_simulation(server, _client(options.client), clients, backend_config=resources)


def _client(name: str) -> ClientApp:
    if name == "nothing":
        from benchmarks.simulation.flower_nothing import app

        return app
    from benchmarks.simulation import flower_training

    return {"sgd": flower_training.sgd, "opacus": flower_training.opacus}[name]


def _doing_nothing(options: argparse.Namespace) -> tuple[ServerApp, int]:
    """All clients in every round, a model of `model_bytes` bytes."""
    size = options.model_bytes // (4 * ARRAYS)
    arrays = ArrayRecord([np.zeros(size, np.float32) for _ in range(ARRAYS)])
    strategy = _strategy(options.clients, options.clients)
    return _server(strategy, arrays, ConfigRecord(), options), options.clients


def _training(options: argparse.Namespace) -> tuple[ServerApp, int]:
    from fl_dp.form import Form
    from fl_dp.models.build import build_model

    federation = FEDERATIONS[options.federation]
    model = build_model(federation.model, Form(federation.input_shape, federation.classes), seed=0)
    strategy = _strategy(federation.clients, federation.per_round)
    config = ConfigRecord({"federation": options.federation, "data-root": str(options.data_root)})
    return _server(strategy, ArrayRecord(model.state_dict()), config, options), federation.clients


def _strategy(clients: int, per_round: int) -> FedAvg:
    """min_train_nodes: FedAvg takes the fraction before it waits for clients, when none may be there yet."""
    return AllMustAnswer(
        fraction_train=per_round / clients,
        min_train_nodes=per_round,
        fraction_evaluate=0.0,
        min_available_nodes=clients,
    )


def _server(
    strategy: FedAvg, arrays: ArrayRecord, config: ConfigRecord, options: argparse.Namespace
) -> ServerApp:
    server, clock = ServerApp(), RoundClock(options.out)

    def between_rounds(server_round: int, _: ArrayRecord) -> None:
        """Flower calls this before the first round and after every one."""
        if server_round == 0:
            clock.start()
        else:
            clock.tick()

    @server.main()
    def run(grid: Grid, context: Context) -> None:
        strategy.start(grid, arrays, options.rounds, train_config=config, evaluate_fn=between_rounds)

    return server


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulation.flower")
    parser.add_argument("client", choices=("nothing", "sgd", "opacus"))
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--at-once", type=int, required=True, help="clients that run at a time")
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--model-bytes", type=int, default=100_000)
    parser.add_argument("--federation", choices=FEDERATIONS, default="digits")
    parser.add_argument("--data-root", type=Path, default=Path("data"))
    return parser


if __name__ == "__main__":
    main()
