"""Client selection: a random choice among clients that are there and have budget for a step."""

import hashlib
import random
import secrets
from collections.abc import Callable, Sequence
from typing import TypeVar

from fl_dp.config.run import RunConfig
from fl_dp.config.run_settings import POISSON
from fl_dp.federation.server.client_record import ClientRecord
from fl_dp.federation.server.registration import Registration
from fl_dp.federation.wire.send_receive import BaseGrid

SECRET_BYTES = 32

Client = TypeVar("Client")


class ClientChoice:
    """Chooses the clients of each round. A subclass may choose differently among those that `able` returns.

    registration: which clients are there. on_registered: called when clients have registered, before any is
    asked. secret: every choice follows from it and from the number of the round, and from nothing else. A
    resumed run restores it, and so makes the same choices. It comes from the system's entropy, never from the
    run's public seed.

    No epsilon assumes that choices are secret: whoever observes a round knows who took part (docs/privacy.md,
    "not claimed").
    """

    def __init__(
        self, config: RunConfig, registration: Registration, on_registered: Callable[[], None]
    ) -> None:
        self.config, self._registration, self._on_registered = config, registration, on_registered
        self.secret = secrets.token_bytes(SECRET_BYTES)
        self.nobody_left = False  # whether no client that is there has budget for one more step

    def choose(self, grid: BaseGrid, server_round: int) -> Sequence[ClientRecord]:
        """Wait until the round can start; returns the clients to train, with Poisson sampling maybe none."""
        able = self.able(grid)
        return draw(able, self.config.sampling, self.config.fit_clients, self.secret, server_round)

    def able(self, grid: BaseGrid) -> Sequence[ClientRecord]:
        """Wait until enough clients are there; returns those with budget for a step, sorted by name."""
        answers = self._registration.answers
        able = self._registration.gather(grid)
        if self._registration.answers > answers:
            self._on_registered()
        self.nobody_left = not able
        return able


def draw(
    able: Sequence[Client], sampling: str, expected: int, secret: bytes, server_round: int
) -> list[Client]:
    """The clients of `able` that are asked in the round; in the order of `able` if "poisson".

    sampling: "fixed" takes `expected` of them, without replacement, or all if they are fewer. "poisson" takes
    each independently with probability expected / number, so a round may have no clients.
    """
    # keyed BLAKE2 (RFC 7693), so that the choices of some rounds do not reveal those of others
    name = f"clients of round {server_round}".encode()
    stream = random.Random(hashlib.blake2b(name, key=secret, digest_size=SECRET_BYTES).digest())
    if sampling == POISSON:
        return [client for client in able if stream.random() < expected / len(able)]
    return stream.sample(able, min(expected, len(able)))
