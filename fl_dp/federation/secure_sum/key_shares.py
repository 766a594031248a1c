"""Shares of a secret (Shamir 1979), over the field of 2^521 - 1: any t of them give it, fewer tell nothing.

Splitting is the package `shamirs`, which draws from `secrets`. Putting together is a few lines here: the
server opens up to a hundred secrets from the same members' shares, and the weights of Lagrange's formula,
which take all the time, are the same for all.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from math import comb

import shamirs

from fl_dp.errors import ConfigError
from fl_dp.federation.secure_sum.keys import SECRET_BYTES
from fl_dp.reporting.wording import counted

PRIME = 2**521 - 1
SHARE_BYTES = 66
_TRIES = 500  # sets of shares that are tried, over all secrets of an attempt


def split(secret: bytes, members: int, threshold: int) -> list[bytes]:
    """A share for each member, by its place: the value of the polynomial at place + 1."""
    found = shamirs.shares(int.from_bytes(secret), members, modulus=PRIME, threshold=threshold)
    return [value.to_bytes(SHARE_BYTES) for _, value, _ in found]


def is_share(content: bytes) -> bool:
    return len(content) == SHARE_BYTES and int.from_bytes(content) < PRIME


class Opener:
    """Opens secrets from the shares of those who answered, of whom some may lie.

    members: places of those who answered, at least `threshold`; ConfigError if there are fewer.
    wrong: of whom a share did not fit; either they lie, or the member does that dealt it.
    """

    def __init__(self, members: Sequence[int], threshold: int) -> None:
        if len(set(members)) < threshold:
            raise ConfigError(f"{counted(len(set(members)), 'key share')}: {threshold} open a key.")
        self._members = sorted(set(members))
        self._used = tuple(self._members[:threshold])
        self._weights = _weights(self._used)
        self._tries = _TRIES
        self.wrong: set[int] = set()

    def open(self, shares: Mapping[int, bytes], fits: Callable[[bytes], bool]) -> bytes | None:
        """The secret whose share each member has given; None if no set of them `fits` within the tries.

        Members whose shares did not fit once are not used for the next secret either, as long as others do.
        """
        found = self._secret(shares, self._used, self._weights)
        if found is not None and fits(found):
            return found
        for used in self._other_sets():
            weights = _weights(used)
            found = self._secret(shares, used, weights)
            if found is not None and fits(found):
                before, self._used, self._weights = self._used, used, weights
                self.wrong.update(self._wrong_shares(shares, fits, before))
                return found
        return None

    def _secret(
        self, shares: Mapping[int, bytes], used: Sequence[int], weights: Sequence[int]
    ) -> bytes | None:
        pairs = zip(used, weights, strict=True)
        value = sum(int.from_bytes(shares[member]) * weight for member, weight in pairs) % PRIME
        return value.to_bytes(SECRET_BYTES) if value < 256**SECRET_BYTES else None

    def _other_sets(self) -> Iterator[tuple[int, ...]]:
        size = len(self._used)
        few = comb(len(self._members), size) <= _TRIES
        chance = random.SystemRandom()
        drawn = (tuple(chance.sample(self._members, size)) for _ in range(_TRIES))
        for used in combinations(self._members, size) if few else drawn:
            if self._tries == 0:
                return
            self._tries -= 1
            yield used

    def _wrong_shares(
        self, shares: Mapping[int, bytes], fits: Callable[[bytes], bool], before: Sequence[int]
    ) -> Iterator[int]:
        """Of those used before, whose share does not lie on the polynomial that was found."""
        for member in set(before) - set(self._used):
            with_it = (*self._used[1:], member)
            found = self._secret(shares, with_it, _weights(with_it))
            if found is None or not fits(found):
                yield member


def _weights(members: Sequence[int]) -> list[int]:
    """Lagrange's weights at 0 for the points place + 1: the product over the others of x' / (x' - x)."""
    points = [member + 1 for member in members]
    weights = []
    for point in points:
        above, below = 1, 1
        for other in points:
            if other != point:
                above, below = above * other, below * (other - point)
        weights.append(above * pow(below, -1, PRIME) % PRIME)
    return weights
