"""A strategy over a grid in memory: settings, and short runs."""

import json

import numpy as np
from flwr.app import Context, RecordDict

from fl_dp.config.run import RunConfig
from fl_dp.federation.server.app import app
from fl_dp.federation.server.run import run_federation
from fl_dp.federation.server.strategy import PrivateStrategy
from fl_dp.federation.wire.arrays import encode, specs

START = {"weight": np.zeros((2, 3), np.float32), "frozen": np.full(4, 7, np.int64)}
TRAINABLE = specs({"weight": START["weight"]})


class Killed(BaseException):
    """Like SIGKILL: nothing is written or tidied up afterwards."""


def settings(**changes):
    values = {
        "clients": 2,
        "min_clients": 2,
        "fit_clients": 2,
        "rounds": 3,
        "noise_multiplier": 2.0,
        "expected_batch_size": 64,
        "round_timeout": 0.3,
        "accountant": "rdp",
        "min_updates": 1,
    }
    return RunConfig(**{**values, **changes})


def strategy_of(config=None, name="run-1", start=START, on_round=lambda report: None):
    trainable = specs({key: array for key, array in start.items() if key != "frozen"})
    return PrivateStrategy(config or settings(), name, trainable, on_round)


def run(nodes, fakes, config=None, evaluate=None, start=START, on_round=lambda report: None):
    """The strategy after a run over `nodes`, and its grid."""
    grid = fakes.Grid(dict(enumerate(nodes, start=11)))
    strategy = strategy_of(config, start=start, on_round=on_round)
    strategy.start(grid, encode(start), evaluate_fn=evaluate)
    return strategy, grid


def serve(folder, grid, run=77, *, resumed=False, **changes):
    """The server's main function as Flower calls it; resumed: as our own launchers do."""
    flat = {
        "out": str(folder / "out"),
        "rounds": 2,
        "noise-multiplier": 2.0,
        "round-timeout": 0.3,
        "device": "cpu",
        "accountant": "rdp",
        **changes,
    }
    if resumed:
        run_federation(grid, flat, str(run), folder / "out", resumed=True)
    else:
        app(grid, Context(run, 0, {}, RecordDict(), flat))


def left(folder):
    """The lines and the summary that it has left."""
    rounds = folder / "out/rounds.jsonl"
    lines = rounds.read_text().splitlines() if rounds.exists() else []
    return list(map(json.loads, lines)), json.loads((folder / "out/summary.json").read_text())


def two(fakes):
    """A grid of two clients."""
    return fakes.Grid({1: fakes.Client("0"), 2: fakes.Client("1")})


def weights(strategy):
    return {name: array.numpy() for name, array in strategy.result.arrays.items()}


def statuses(strategy, server_round):
    return {name: client.status for name, client in strategy.reports[server_round - 1].clients.items()}


def adding_up(fakes, *nodes):
    """A grid that could answer with sums."""
    grid = fakes.Grid(dict(enumerate(nodes, start=11)))
    grid.adds_up = True
    return grid
