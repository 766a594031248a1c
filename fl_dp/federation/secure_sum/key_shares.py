"""Shares of a secret (Shamir 1979): any t give the secret, fewer reveal nothing of it.

All numbers are modulo the order of P-256, a prime. A random polynomial f of degree t - 1 has the secret as
f(0); the share of the member at place j is f(j + 1). No share is proven to be right: if a dealer or an opener
lies, the sum fails, because the secret is compared with a public key (`masks.take_off`).
"""

import secrets
from collections.abc import Mapping, Sequence
from functools import lru_cache

from fl_dp.errors import ConfigError
from fl_dp.federation.secure_sum.keys import ORDER, SECRET_BYTES
from fl_dp.reporting.wording import counted

SHARE_BYTES = SECRET_BYTES


def is_share(content: bytes) -> bool:
    return len(content) == SHARE_BYTES and int.from_bytes(content) < ORDER


def deal(secret: bytes, members: int, threshold: int) -> list[bytes]:
    """A share for each member, by place; any `threshold` of them give the secret."""
    hidden = [int.from_bytes(secret), *(secrets.randbelow(ORDER) for _ in range(threshold - 1))]
    return [_bytes(_value(hidden, place)) for place in range(members)]


def secret_of(shares: Mapping[int, bytes], threshold: int) -> bytes:
    """The secret of these shares, by place; ConfigError if they are fewer than `threshold`."""
    if len(shares) < threshold:
        raise ConfigError(f"{counted(len(shares), 'key share')}: {threshold} open a key.")
    used = tuple(sorted(shares)[:threshold])
    pairs = zip(used, _weights(used), strict=True)
    return _bytes(sum(int.from_bytes(shares[place]) * weight for place, weight in pairs))


@lru_cache(maxsize=8)
def _weights(places: tuple[int, ...]) -> tuple[int, ...]:
    """Lagrange's weights at 0 for the points place + 1: the product over the others of x' / (x' - x).

    Cached, because they take most of the time and are the same for all secrets.
    """
    points = [place + 1 for place in places]
    weights = []
    for point in points:
        above, below = 1, 1
        for other in points:
            if other != point:
                above, below = above * other, below * (other - point)
        weights.append(above * pow(below, -1, ORDER) % ORDER)
    return tuple(weights)


def _value(coefficients: Sequence[int], place: int) -> int:
    """The polynomial's value at this place's point, place + 1."""
    value = 0
    for one in reversed(coefficients):
        value = (value * (place + 1) + one) % ORDER
    return value


def _bytes(number: int) -> bytes:
    return (number % ORDER).to_bytes(SHARE_BYTES)
