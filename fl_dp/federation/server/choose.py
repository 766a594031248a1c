"""Client selection: a random choice among clients that are there and have budget for a step."""

import hashlib
import random
import secrets
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from fl_dp.config.run import RunConfig
from fl_dp.config.run_settings import POISSON, TURNS
from fl_dp.federation.server.client_record import ClientRecord
from fl_dp.federation.server.registration import Registration
from fl_dp.federation.wire.send_receive import BaseGrid

SECRET_BYTES = 32


class ClientChoice:
    """Chooses the clients of each round. A subclass may choose differently among those that `able` returns.

    registration: which clients are there. on_registered: called when clients have registered, before any is
    asked. secret: it decides every choice, with the number of the round and, in turns, how often each client
    has trained. A resumed run restores it, and so makes the same choices. It comes from the system's entropy;
    in a simulation from the run's seed, so that two methods train the same clients (`secret_of`).

    No epsilon assumes that choices are secret: anyone who observes a round knows who took part
    (docs/privacy.md, "not claimed").
    """

    def __init__(
        self, config: RunConfig, registration: Registration, on_registered: Callable[[], None]
    ) -> None:
        self.config, self._registration, self._on_registered = config, registration, on_registered
        self.secret = secrets.token_bytes(SECRET_BYTES)
        self.nobody_left = False  # whether no client that is there has budget for one more step

    def choose(self, grid: BaseGrid, server_round: int) -> Sequence[ClientRecord]:
        """Wait until the round can start; returns the clients to train, with Poisson sampling maybe none."""
        return draw(self.able(grid), self.config.sampling, self.config.fit_clients, self.secret, server_round)

    def able(self, grid: BaseGrid) -> Sequence[ClientRecord]:
        """Wait until enough clients are there; returns those with budget for a step, sorted by name."""
        answers = self._registration.answers
        able = self._registration.gather(grid)
        if self._registration.answers > answers:
            self._on_registered()
        self.nobody_left = not able
        return able


class HasTurns(Protocol):
    """What a choice needs to know of a client. turns: in how many rounds it has trained, or may have."""

    @property
    def turns(self) -> int: ...


Client = TypeVar("Client", bound=HasTurns)


def draw(
    able: Sequence[Client], sampling: str, expected: int, secret: bytes, server_round: int
) -> list[Client]:
    """The clients of `able` that are asked in the round; in the order of `able` if "poisson".

    sampling: "turns" takes the `expected` clients with the fewest turns; chance decides among equals.
    "fixed" takes `expected` of them, without replacement, or all if they are fewer. "poisson" takes each
    independently with probability expected / number, so a round may have no clients. "auto" is "fixed": a
    simulation has replaced it before.
    """
    # keyed BLAKE2 (RFC 7693), so that the choices of some rounds do not reveal those of others
    name = f"clients of round {server_round}".encode()
    stream = random.Random(hashlib.blake2b(name, key=secret, digest_size=SECRET_BYTES).digest())
    if sampling == POISSON:
        return [client for client in able if stream.random() < expected / len(able)]
    if sampling == TURNS:
        shuffled = stream.sample(able, len(able))
        return sorted(shuffled, key=lambda client: client.turns)[:expected]
    return stream.sample(able, min(expected, len(able)))


def secret_of(seed: int) -> bytes:
    """The secret of a simulated run's choices: equal seeds choose equal clients."""
    return hashlib.blake2b(f"clients of seed {seed}".encode(), digest_size=SECRET_BYTES).digest()
