"""One attempt of a secure sum, played stage by stage: for tests, and for attacks that change a message."""

import dataclasses
import math
import secrets
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl_dp.federation.secure_sum.limits import Limits, least_threshold
from fl_dp.federation.secure_sum.messages import Confirmations, Masked, Survivors
from fl_dp.federation.secure_sum.participant import Participant
from fl_dp.federation.secure_sum.summing import SecureSum
from fl_dp.federation.secure_sum.terms import MODULUS, Head, Terms
from fl_dp.kits.keys import SigningKey

LIMITS = Limits(least_clients=2, least_shares=1, least_colluders=1)
Integers = NDArray[np.int64]
_SITES = sorted((SigningKey.generate() for _ in range(12)), key=lambda key: key.public)


def sites(count: int) -> list[SigningKey]:
    """The same ones each time, in the order of their public keys."""
    return _SITES[:count]


def head(clients: int, dropouts: int = 1, numbers: int = 50, **changes: Any) -> Head:
    """What an honest server proposes, with noise of multiplier 1 for a bound of 1."""
    spacing, colluders = 2.0**-20, changes.get("colluders", 1)
    sensitivity = 1.0 + math.sqrt(numbers) * spacing
    shares = max(clients - dropouts - colluders, 1)
    proposed = Head(
        run="run",
        server_round=1,
        attempt=secrets.token_hex(16),
        plan="ab" * 32,
        weights="cd" * 32,
        max_grad_norm=1.0,
        sensitivity=sensitivity,
        noise_multiplier=1.0,
        spacing=spacing,
        levels=3,
        numbers=numbers,
        share_deviation=sensitivity / math.sqrt(shares) * (1 + 1e-9),
        modulus=MODULUS,
        sampler="discrete-gaussian",
        clients=clients,
        dropouts=dropouts,
        colluders=colluders,
        threshold=least_threshold(clients, colluders),
    )
    return dataclasses.replace(proposed, **changes)


class Played:
    """The server and all members of one attempt, each of which does what it is told here, and no more.

    roster: of every member's kit. integers: what each member would send in the clear.
    """

    def __init__(self, proposed: Head, roster: Collection[str] | None = None) -> None:
        self.keys = sites(proposed.clients)
        self.names = [key.public for key in self.keys]
        self.roster = set(self.names) if roster is None else roster
        self.server = SecureSum(proposed, {site: f"client {i}" for i, site in enumerate(self.names)})
        self.members: list[Participant] = []
        self.head = proposed
        random = np.random.default_rng(7)
        self.integers = [
            random.integers(-(2**55), 2**55, proposed.numbers, np.int64) for _ in range(proposed.clients)
        ]

    def clear_sum(self, of: Collection[int]) -> Integers:
        return np.sum([self.integers[place] for place in of], axis=0, dtype=np.int64)

    def advertise(self, gone: Collection[int] = ()) -> None:
        for place, key in enumerate(self.keys):
            member, answer = Participant.begin(self.head, LIMITS, key)
            self.members.append(member)
            if place not in gone:
                self.server.take_advertisement(key.public, answer.to_fields())

    def share(self, gone: Collection[int] = ()) -> Terms:
        terms = self.server.terms()
        for place, member in enumerate(self.members):
            if place not in gone:
                answer = member.share(carried(terms), LIMITS, self.roster)
                self.server.take_sharing(self.names[place], answer.to_fields())
        return terms

    def mask(self, gone: Collection[int] = ()) -> None:
        for place, member in enumerate(self.members):
            if place not in gone:
                member.accept(carried(self.server.inbox(self.names[place])))
                masked = member.mask(self.integers[place])
                self.server.take_masked(self.names[place], masked.to_fields())

    def until_masked(self, gone: Collection[int] = ()) -> "Played":
        self.until_shared().mask(gone)
        return self

    def until_shared(self) -> "Played":
        self.advertise()
        self.share()
        return self

    def confirm(self, gone: Collection[int] = ()) -> None:
        survivors = self.server.survivors()
        for place in survivors.places:
            if place not in gone:
                answer = self.members[place].confirm(carried(survivors))
                self.server.take_confirmation(self.names[place], answer.to_fields())

    def open(self, gone: Collection[int] = ()) -> None:
        confirmations = self.server.confirmations()
        for place in confirmations.places:
            if place not in gone:
                answer = self.members[place].open(carried(confirmations))
                self.server.take_opening(self.names[place], answer.to_fields())

    def total(self, gone: Collection[int] = ()) -> Integers:
        """The sum after the last two stages; `gone` answer neither."""
        self.confirm(gone)
        self.open(gone)
        return self.server.total()

    # What a server can do that keeps to no protocol.

    def answer_of(self, place: int) -> Masked:
        """What this member sends at stage 3."""
        member = self.members[place]
        member.accept(self.server.inbox(self.names[place]))
        return member.mask(self.integers[place])

    def confirmations_of(self, survivors: Survivors, signers: Mapping[int, bytes]) -> Confirmations:
        places = tuple(sorted(signers))
        assert set(places) <= set(survivors.places)
        return Confirmations(places, tuple(signers[place] for place in places))


def carried(message: Any) -> Any:
    """As the other end reads it."""
    return type(message).from_fields(message.to_fields())


def words(masked: Masked) -> NDArray[np.uint64]:
    return np.frombuffer(masked.vector, "<u8")


def looks_uniform(words: NDArray[np.uint64]) -> bool:
    """Whether 64-bit numbers look like masks: their mean bits, by five standard deviations each."""
    bits = np.unpackbits(words.view(np.uint8).reshape(-1, 8), axis=1)
    return bool((np.abs(bits.mean(0) - 0.5) < 2.5 / math.sqrt(len(words))).all())


def without(places: int, gone: Collection[int]) -> Sequence[int]:
    return [place for place in range(places) if place not in gone]
