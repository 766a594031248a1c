"""Which clients take part in a round."""

import hashlib
import math
import random
import secrets
from collections.abc import Callable, Sequence
from typing import TypeVar

SECRET_BYTES = 32

Client = TypeVar("Client")


class ClientSampler:
    """Chooses among the clients that can take a step.

    scheme: "fixed" takes `expected` of them, without replacement, or all where they are fewer; "poisson"
    takes each by itself with probability expected / number, so that a round may be without clients. "budget"
    is as "fixed", but a client comes the earlier the more of its budget is left: drawn one after the other,
    each with a chance in proportion to that (Efraimidis, Spirakis 2006, algorithm A). What is left is
    public, from steps that servers chose.
    secret: what every choice follows from, with the number of the round and nothing else: a resumed run
    chooses as it would have. New from the system's entropy unless given; never from the run's seed, which is
    public.

    No epsilon rests on that secret: whoever hears of a round knows who took part (docs/privacy.md, "not
    claimed").
    """

    def __init__(self, scheme: str, expected: int, secret: bytes | None = None) -> None:
        self.secret = secret or secrets.token_bytes(SECRET_BYTES)
        self._scheme, self._expected = scheme, expected

    def choose(
        self, able: Sequence[Client], server_round: int, left: Callable[[Client], float] = lambda client: 1.0
    ) -> list[Client]:
        """Those of `able` that are asked in round `server_round`; in the order of `able` if "poisson".

        left: the share of a client's budget that is left, above 0; asked by "budget" alone.
        """
        stream = random.Random(self._seed(server_round))
        if self._scheme == "budget":
            drawn = [(math.log(1.0 - stream.random()) / left(client), -i) for i, client in enumerate(able)]
            best = sorted(drawn, reverse=True)[: self._expected]
            return [able[-i] for _, i in best]
        if self._scheme == "poisson":
            return [client for client in able if stream.random() < self._expected / len(able)]
        return stream.sample(able, min(self._expected, len(able)))

    def _seed(self, server_round: int) -> bytes:
        """By keyed BLAKE2 (RFC 7693): from the choices of some rounds nobody can tell those of others."""
        name = f"clients of round {server_round}".encode()
        return hashlib.blake2b(name, key=self.secret, digest_size=SECRET_BYTES).digest()
