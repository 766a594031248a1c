"""Many clients on one, two and eight simulated cards: where actors go, what fits, and what if it does not.

A card here has a memory and a clock, and no GPU. Actors go where Ray puts them, which the last test asks Ray.
"""

import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from test_actor_pool import Adder, run

from fl_dp.config.run import RunConfig
from fl_dp.records import RoundPlan
from fl_dp.simulation.actor_pool import ActorPool
from fl_dp.simulation.cluster.resources import USABLE, Node, Share, by_memory, fitting, share
from fl_dp.simulation.work import ChunkDone, ClientWork, Measured

GIB = 2**30
TOTAL, CONTEXT, ROW = 40 * GIB, GIB, GIB // 64  # of a card; what an actor always holds, and for each example
CONFIG = RunConfig(clients=1000, fit_clients=500)
PLAN = RoundPlan("run", 1, "linear", 2, 8, 0.5, 0.0, 1.0, 1.0)
CLIENTS = [ClientWork(str(k), str(k), k, PLAN, 2, 0.1, weight=1.0) for k in range(300)]


@dataclass
class Card:
    """left: the share that Ray has not given away; held: bytes; most: the most that was ever held."""

    left: float = 1.0
    held: int = 0
    most: int = 0
    clock: float = 0.0

    def hold(self, more: int) -> None:
        self.held += more
        self.most = max(self.most, self.held)


def placed(cards: Sequence[Card], gpus: float) -> Card:
    """As Ray does: on the card with the least that is left, if that is enough."""
    card = min((card for card in cards if card.left >= gpus - 1e-9), key=lambda card: card.left)
    card.left -= gpus
    return card


def actors_on(cards: Sequence[Card], need: Measured, cores: int) -> list[Card]:
    """The card of each actor of a simulation: one that measures, then the others with a share by memory."""
    node = Node(cores, len(cards), 1 << 40)
    one = share(CONFIG, [node])
    found = [placed(cards, one.gpus)]
    fitted = by_memory(CONFIG, one, need)
    number = fitting(CONFIG, fitted, [node], need)
    return found + [placed(cards, fitted.gpus) for _ in range(number - 1)]


@pytest.mark.parametrize("number", [1, 2, 8])
@pytest.mark.parametrize("cores", [8, 64])
@pytest.mark.parametrize("needs", [1, 3, 7, 11, 17, 39])
def test_no_card_gets_more_actors_than_its_memory_holds(number, cores, needs):
    cards = [Card() for _ in range(number)]
    need = Measured({}, 64, 0, 0, needs * GIB, TOTAL)
    found = Counter(map(id, actors_on(cards, need, cores)))
    by_cores, fit = cores // number, max(1, int(USABLE * TOTAL) // (needs * GIB))
    assert set(found.values()) == {min(by_cores, fit)}
    assert len(found) == number


class OnCard(Adder):
    """An actor with a share of a card's memory, which halves its batch where the real one does."""

    card: Card

    def train(
        self, number: int, items: Sequence[ClientWork], at_once: int, shared_round: Any = None
    ) -> ChunkDone:
        while self.card.held + at_once * ROW > TOTAL and at_once > 1:
            at_once //= 2
        self.card.hold(at_once * ROW)
        done = super().train(number, items, at_once, shared_round)
        self.card.clock += len(items) / at_once
        self.card.hold(-at_once * ROW)
        return replace(done, at_once=at_once)


@pytest.mark.parametrize("number", [1, 2, 8])
@pytest.mark.parametrize("others", [0, 30], ids=["alone", "beside others who hold most of it"])
def test_hundreds_of_clients_share_cards_within_their_memory(number, others, fake_ray):
    cards = [Card(held=others * GIB) for _ in range(number)]
    need = Measured({}, 512, 0, 0, CONTEXT + 512 * ROW, TOTAL)
    where = iter(actors_on(cards, need, 64))

    def start() -> OnCard:
        actor = OnCard()
        actor.card = next(where)
        actor.card.hold(CONTEXT)
        return actor

    size = number * min(64 // number, int(USABLE * TOTAL / (CONTEXT + 512 * ROW)))
    pool = ActorPool(lambda: fake_ray.start_actor(start), size, 60.0, at_once=512)
    assert run(pool, CLIENTS) == {}
    assert all(card.most <= TOTAL for card in cards)
    assert all(card.clock > 0 for card in cards)
    assert (pool.at_once < 512) == (others > 0)


ASK_RAY = """
import sys, ray
class Where:
    def card(self):
        return int(ray.get_gpu_ids()[0])
ray.init(num_cpus=8, num_gpus=2, include_dashboard=False, log_to_driver=False)
actors = []
for share in map(float, sys.argv[1:]):
    actors.append(ray.remote(Where).options(num_cpus=0.1, num_gpus=share).remote())
    print(ray.get(actors[-1].card.remote()))
"""


@pytest.mark.slow
def test_ray_fills_cards_as_these_are_filled():
    """Ray gives away as many GPUs as it is told of; nothing runs on them."""
    cards, shares = [Card(), Card()], [0.25, 0.3333, 0.3333, 0.3333, 0.3333]
    expected = [cards.index(placed(cards, one)) for one in shares]
    command = [sys.executable, "-c", ASK_RAY, *map(str, shares)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert Counter(map(int, done.stdout.split())) == Counter(expected)


def test_without_a_measurement_the_share_stays():
    assert by_memory(CONFIG, Share(1, 0.125), Measured({}, 64, 0, 0, 0, 0)) == Share(1, 0.125)
