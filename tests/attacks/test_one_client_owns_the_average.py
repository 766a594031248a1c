"""A client that declares 6,400,000 records and sends weights times -50: what it gains.

|                                               | before  | now                        |
|-----------------------------------------------|---------|----------------------------|
| its share of the average of four              | 0.9997  | 0.4                        |
| accuracy, an update that points the other way | 0       | 1                          |
| length of the model after -50, three times    | 120,000 | 2                          |
| accuracy after that                           | 0       | 0, or 1 with a robust mean |
"""

from dataclasses import replace

import numpy as np
import pytest

from fl_dp.choices import AGGREGATIONS
from fl_dp.config.run import RunConfig
from fl_dp.federation.server.aggregation import MALICIOUS
from fl_dp.federation.server.strategy import PrivateStrategy
from fl_dp.federation.wire.arrays import encode, specs

SIZE, CLASSES = 20, 3
RIGHT = np.random.default_rng(1).normal(size=(CLASSES, SIZE)).astype(np.float32)
START = {"weight": np.zeros((CLASSES, SIZE), np.float32)}
CONFIG = RunConfig(
    clients=4,
    min_clients=4,
    fit_clients=4,
    rounds=3,
    noise_multiplier=2.0,
    accountant="rdp",
    round_timeout=0.3,
    learning_rate=0.5,
)


def accuracy(weights):
    inputs = np.random.default_rng(2).normal(size=(2000, SIZE)).astype(np.float32)
    return float(((inputs @ weights.T).argmax(1) == (inputs @ RIGHT.T).argmax(1)).mean())


def towards(way):
    """An honest client moves a third of the way to what is right; the attacker turns its weights around."""
    return lambda update: replace(
        update, arrays={name: np.float32(way(array - 1)) for name, array in update.arrays.items()}
    )


def honest(received):
    return received + (RIGHT - received) / 3


def away(received):
    """As long a way as an honest client's, to the other side."""
    return received - (honest(received) - received)


def fifty(received):
    return -50 * honest(received)


def served(fakes, nodes, **changes):
    strategy = PrivateStrategy(replace(CONFIG, **changes), "run-1", specs(START), lambda report: None)
    strategy.start(fakes.Grid(dict(enumerate(nodes, 11))), encode(START))
    return strategy


def run(fakes, attack, *, size=6_400_000, hostile=1, number=4, **changes):
    clients = [fakes.Client(str(i), epsilon=50.0, lie=towards(honest)) for i in range(hostile, number)]
    names = [f"hostile {i}" for i in range(hostile)]
    clients += [fakes.Client(name, size, epsilon=50.0, lie=towards(attack)) for name in names]
    strategy = served(fakes, clients, clients=number, fit_clients=number, min_clients=number, **changes)
    for report in strategy.reports:  # nothing of it is malformed
        assert {report.clients[name].status for name in names} == {"trained"}
    return strategy.result.arrays["weight"].numpy()


@pytest.mark.parametrize("size", [640, 6_400_000])
def test_its_share_is_no_more_than_twice_an_equal_one(fakes, size):
    """Everybody else sends what it got, the attacker 0.1 more in each number: the mean tells its share."""
    clients = [fakes.Client(str(i), lie=towards(lambda received: received)) for i in range(3)]
    clients.append(fakes.Client("3", size, epsilon=50.0, lie=towards(lambda received: received + 0.1)))
    share = served(fakes, clients, rounds=1).result.arrays["weight"].numpy().max() / 0.1
    assert share == pytest.approx(0.25 if size == 640 else 0.4)


def test_with_updates_as_long_as_others_it_does_not_keep_them_from_learning(fakes):
    assert accuracy(run(fakes, honest, size=640)) == 1.0
    assert accuracy(run(fakes, away)) > 0.95


def test_however_long_its_updates_the_model_stays_near(fakes):
    assert np.linalg.norm(run(fakes, honest, size=640)) < 10
    assert np.linalg.norm(run(fakes, fifty)) < 10


@pytest.mark.parametrize("aggregation", sorted({*AGGREGATIONS.built_in()} - {"mean", "secure"}))
def test_where_others_are_more_than_it_takes_to_hide_them_it_gains_nothing(fakes, aggregation):
    learnt = run(fakes, fifty, number=7 if aggregation == "bulyan" else 5, aggregation=aggregation)
    assert accuracy(learnt) == 1.0
    assert np.linalg.norm(learnt) < 10
    number = 11 if aggregation == "bulyan" else 7
    takes_a_number = AGGREGATIONS.load(aggregation, type).argument == MALICIOUS
    against_two = f"{aggregation}:2" if takes_a_number else aggregation
    two = run(fakes, fifty, number=number, hostile=2, aggregation=against_two)
    assert accuracy(two) == 1.0
