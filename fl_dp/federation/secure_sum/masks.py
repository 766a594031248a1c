"""Masks: streams of uniform 64-bit numbers, added to or subtracted from a vector modulo 2^64."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from fl_dp.federation.secure_sum.key_shares import secret_of
from fl_dp.federation.secure_sum.keys import agreed, derived, public_of
from fl_dp.federation.secure_sum.terms import Member, Terms

Words = NDArray[np.uint64]
_BLOCK = 16  # bytes of a block of AES
_CHUNK = 2**15  # numbers at a time: 256 KiB, which fit the processor's cache
_ZEROS = bytes(8 * _CHUNK)


def add_stream(total: Words, key: bytes, sign: int = 1) -> None:
    """Add to `total`, in place, the key stream of AES-256 in counter mode (sign -1: subtract it).

    Little-endian on every machine. A key serves for one stream only, so the counter starts at zero.
    """
    cipher = Cipher(algorithms.AES(key), modes.CTR(bytes(_BLOCK))).encryptor()
    buffer = np.empty(8 * _CHUNK + _BLOCK, np.uint8)
    change: Any = np.add if sign > 0 else np.subtract
    for start in range(0, len(total), _CHUNK):
        part = total[start : start + _CHUNK]
        cipher.update_into(_ZEROS[: 8 * len(part)], buffer.data)
        change(part, buffer[: 8 * len(part)].view("<u8"), out=part)


def own_key(seed: bytes, digest: bytes, site: str) -> bytes:
    """The key of the mask that a member adds for itself."""
    return derived(seed, digest, "own mask", site)


def pair_key(private: bytes, public: bytes, digest: bytes, site: str, other: str, name: str) -> bytes:
    """The key of the mask that two members share; one of them adds it, the other subtracts it.

    private: of `site`; public: of `other`; name: of `other`, for an error.
    """
    low, high = sorted((site, other))
    return derived(agreed(private, public, name), digest, "pair mask", low, high)


def pair_sign(site: str, other: str) -> int:
    """The sign with which `site` adds the mask that it shares with `other`: 1 for the lower site key."""
    return 1 if site < other else -1


def take_off(
    total: Words, terms: Terms, survivors: Collection[int], shares: Mapping[int, Sequence[bytes]]
) -> tuple[str, ...]:
    """Remove, in place, each survivor's own mask, and its masks with members that are not in the sum.

    survivors: places of the members whose vectors are in the sum. shares: by opener's place, its shares by
    dealer's place. If some members' shares do not give their secrets, removes nothing; returns their names.
    """
    digest, members = terms.digest, list(enumerate(terms.members))
    secrets = {
        place: _secret(member, place in survivors, {by: own[place] for by, own in shares.items()}, terms)
        for place, member in members
    }
    if wrong := tuple(member.name for place, member in members if not secrets[place]):
        return wrong  # so that a lost sum stays closed
    for place, member in members:
        if place in survivors:
            add_stream(total, own_key(secrets[place], digest, member.site), -1)
            continue
        for other in (terms.members[one] for one in survivors):
            key = pair_key(secrets[place], other.mask_key, digest, member.site, other.site, repr(other.name))
            add_stream(total, key, -pair_sign(other.site, member.site))
    return ()


def _secret(member: Member, survives: bool, given: Mapping[int, bytes], terms: Terms) -> bytes:
    """The secret; empty unless the public key belongs to it: the sum is right even if members lie."""
    found = secret_of(given, terms.head.threshold)
    right = any(found) and public_of(found) == (member.seed_key if survives else member.mask_key)
    return found if right else b""
