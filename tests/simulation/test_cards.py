"""Many clients on one, two and eight simulated cards: where actors go, and what fits.

Actors go where Ray puts them, which a test asks Ray.
"""

import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from fl_dp.config.run import RunConfig
from fl_dp.simulation.cluster.resources import USABLE, Node, Share, by_memory, fitting, share
from fl_dp.simulation.work import Measured

GIB = 2**30
TOTAL = 40 * GIB  # of a card
CONFIG = RunConfig(clients=1000, fit_clients=500)


@dataclass
class Card:
    """left: the share that Ray has not given away."""

    left: float = 1.0


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
