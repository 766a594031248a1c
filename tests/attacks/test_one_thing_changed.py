"""A reply that is valid but for one thing costs its own client's round at most: at the strategy itself."""

import random
from dataclasses import replace

import numpy as np
import pytest
from changed_replies import changed
from flwr.app import Message

from fl_dp.config.run import RunConfig
from fl_dp.federation.server import registration
from fl_dp.federation.server import strategy as rounds
from fl_dp.federation.server.strategy import PrivateStrategy
from fl_dp.federation.wire import send_receive
from fl_dp.federation.wire.arrays import decode, encode, specs
from fl_dp.federation.wire.messages import refusal_to_content, reply_from_content, update_to_content
from fl_dp.federation.wire.partial_sums import make_group
from fl_dp.records import Entry, Refusal

START = {"bias": np.zeros(3, np.float32), "weight": np.zeros((2, 3), np.float32)}
CONFIG = RunConfig(
    clients=3,
    min_clients=2,
    fit_clients=3,
    rounds=2,
    noise_multiplier=2.0,
    round_timeout=60.0,
    accountant="rdp",
    weights="uniform",
)
HONEST = np.float32(1)  # what every honest update adds to every weight


@pytest.fixture(params=[300, pytest.param(3000, marks=pytest.mark.slow)])
def number(request):
    """Of changes, of each kind."""
    return request.param


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(send_receive, "SHORTEST_PAUSE", 0.0)
    monkeypatch.setattr(registration, "PATIENCE", 0.005)
    monkeypatch.setattr(registration, "LEAST_PATIENCE", 0.005)
    monkeypatch.setattr(registration, "RETRY", 0.0)
    # who answers does so at once; nobody is waited for whose reply was dropped
    monkeypatch.setattr(rounds, "ask", lambda grid, asked, *_: send_receive.ask(grid, asked, 0.005))


def change(reply, rng):
    """Some changes cannot be made: Flower's records refuse lists of mixed types, for instance."""
    while True:
        try:
            return changed(reply, rng)
        except (TypeError, ValueError):
            continue


def hostile(fakes, kind, rng, name="0"):
    """A client whose answer of that kind, to the first such message, has one thing changed."""

    class Hostile(fakes.Client):
        changes = 0

        def __call__(self, message):
            reply = super().__call__(message)
            asked = message.metadata.message_type
            if self.changes or asked != {"registration": "query"}.get(kind.split()[-1], "train"):
                return reply
            self.changes += 1
            if kind.startswith("refused"):
                refusal = Refusal(rng.choice(["failed", "declined"]), "its ledger cannot be used")
                reply = Message(refusal_to_content(refusal), reply_to=message)
            return change(reply, rng)

    return Hostile(name, spent=(Entry(0.1, 2.0, 3),))


def play(fakes, grid):
    strategy = PrivateStrategy(CONFIG, "run-1", specs(START), lambda report: None)
    strategy.start(grid, encode(START))
    assert [report.round for report in strategy.reports] == [1, 2]
    return strategy


def check_model(strategy):
    """A finite, well-formed model; it is returned."""
    arrays = decode(strategy.result.arrays, specs(START))
    assert all(abs(array).max() <= 1e6 for array in arrays.values())
    return arrays


@pytest.mark.parametrize("kind", ["registration", "refused registration", "update", "refused update"])
def test_of_a_deployed_clients_replies(fakes, kind, number):
    rng = random.Random(kind)
    outcomes = set()
    for turn in range(number):
        client = hostile(fakes, kind, rng)
        strategy = play(fakes, fakes.Grid({11: client, 12: fakes.Client("1"), 13: fakes.Client("2")}))
        first = strategy.reports[0].clients
        assert first["1"].status == first["2"].status == "trained", turn
        assert strategy.reports[1].clients["1"].status == "trained", turn
        arrays = check_model(strategy)
        status = first["0"].status if "0" in first else "idle"
        outcomes.add(status)
        if kind != "update" or status != "trained":  # else its values may be any in the bounds
            np.testing.assert_array_equal(arrays["weight"], np.full((2, 3), 2 * HONEST), f"{turn}")
        if status not in ("trained", "idle"):
            assert first["0"].reason, turn
    assert outcomes >= {"registration": {"idle", "trained"}, "update": {"failed", "trained"}}.get(
        kind, {"idle"}
    ) or (kind == "refused update" and outcomes >= {"failed", "declined"})


def summing(fakes, rng):
    """Our own simulation's grid, one of whose replies has one thing changed."""

    class Summing(fakes.Grid):
        adds_up = True

        def push_messages(self, messages):
            ids = super().push_messages(messages)
            if messages[0].metadata.message_type != "train":
                return ids
            contents = {one: self._replies[one].content for one in ids}
            total = {name: np.zeros(array.shape) for name, array in START.items()}
            for content in contents.values():
                update, _ = reply_from_content(content, specs(START))
                for name, array in update.arrays.items():
                    total[name] += array
                summed = replace(update, arrays={})
                content["arrays"] = update_to_content(summed)["arrays"]
            make_group(contents, list(ids), total)
            one = rng.choice(list(ids))
            self._replies[one] = change(self._replies[one], rng)
            return ids

    return Summing({11: fakes.Client("0"), 12: fakes.Client("1"), 13: fakes.Client("2")})


def test_of_a_simulations_replies(fakes, number):
    rng = random.Random("simulation")
    moved = set()
    for _ in range(number):
        arrays = check_model(play(fakes, summing(fakes, rng)))
        assert np.unique(arrays["weight"]).size <= 2
        moved.add(float(arrays["weight"].max()))
    assert 2.0 in moved  # changes without effect
    assert 0.0 in moved  # changes that cost the group's round
