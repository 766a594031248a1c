"""A hundred thousand changed replies through Flower's own server and serialization.

    python -m pytest tests/attacks/test_one_thing_changed_on_the_wire.py

Last result: see docs/attacks.md.
"""

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from flwr.supercore.inflatable.inflatable_object import no_object_id_recompute
from real_superlink import Link
from test_one_thing_changed import CONFIG, START, _no_pauses, check_model, hostile  # noqa: F401

from fl_dp.federation.server.strategy import PrivateStrategy
from fl_dp.federation.wire.arrays import encode, specs
from fl_dp.federation.wire.careful_grid import CarefulGrid

HOSTILE = 40  # clients of one run
KINDS = ["registration", "refused registration", "update", "refused update"]
NAMES = ["run_id", "src_node_id", "dst_node_id", "reply_to_message_id", "group_id", "message_type", "ttl"]


CONFIG = replace(CONFIG, clients=HOSTILE + 2, fit_clients=HOSTILE + 2, rounds=1)


class Wire(CarefulGrid):
    """The server's grid over Flower's link state, whose nodes answer when they are asked."""

    def __init__(self, link, nodes, forged):
        super().__init__(link.grid())
        self.link, self.nodes, self.forged = link, nodes, forged

    def push_messages(self, messages):
        with no_object_id_recompute():
            ids = super().push_messages(messages)
            for number, node in enumerate(self.nodes):
                forged = self.forged if number < HOSTILE else lambda metadata: None
                self.link.answer(number, node, forged)
        return ids


def forge(metadata, rng):
    """Change one of the outer metadata, now and then."""
    if rng.random() < 0.05:
        name = rng.choice(NAMES)
        value = getattr(metadata, name)
        setattr(metadata, name, value + 1 if isinstance(value, int | float) else value + "x")


def run(fakes, kinds, rng):
    """How often each thing became of a client that has changed one thing."""
    clients = [hostile(fakes, kind, rng, f"h{number}") for number, kind in enumerate(kinds)]
    clients += [fakes.Client("a"), fakes.Client("b")]
    grid = Wire(Link(len(clients)), clients, lambda metadata: forge(metadata, rng))
    strategy = PrivateStrategy(CONFIG, "run-1", specs(START), lambda report: None)
    strategy.start(grid, encode(START), timeout=0.005)
    found = strategy.reports[0].clients
    assert found["a"].status == found["b"].status == "trained"
    assert all(one.reason for one in found.values() if one.status not in ("trained", "idle"))
    arrays = check_model(strategy)
    if "update" not in kinds:  # else an update may be any within the bounds
        np.testing.assert_array_equal(arrays["weight"], np.ones((2, 3), np.float32))
    return Counter(found[name].status if name in found else "not registered" for name in names(clients))


def names(clients):
    return [client.name for client in clients[:HOSTILE]]


def changes(fakes, number, seed):
    rng, found = random.Random(seed), Counter()
    while found.total() < number:
        kinds = rng.choice([["update"], KINDS, [kind for kind in KINDS if kind != "update"]])
        found += run(fakes, rng.choices(kinds, k=HOSTILE), rng)
    return found


def test_a_few_hundred(fakes):
    assert set(changes(fakes, 300, "few")) >= {"not registered", "trained", "failed", "declined"}


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_a_hundred_thousand(fakes):
    found = changes(fakes, 100_000, "many")
    print(found)
    assert found.total() >= 100_000
