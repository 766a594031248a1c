"""What members and server say to each other in one attempt, stage by stage.

                 server -> member                      member -> server
    1 advertise  Head                                  Advertisement
    2 share      Terms                                 Sharing
    3 mask       Inbox                                 Masked
    4 confirm    Survivors                             Confirmation
    5 open       Confirmations                         Opening

A place is a member's number in the terms, from 0. Lists "by place" have one entry for each member.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Self

from fl_dp.federation.secure_sum.fields import (
    Value,
    Within,
    exactly,
    from_fields,
    to_fields,
)
from fl_dp.federation.secure_sum.key_shares import SHARE_BYTES
from fl_dp.federation.secure_sum.keys import OVERHEAD
from fl_dp.federation.secure_sum.terms import KEY_BYTES, MOST_NUMBERS, SIGNATURE_BYTES
from fl_dp.records import MOST_MEMBERS

AGREEMENT_PURPOSE = "secure sum terms"  # of a signature, over the digest of the terms
SURVIVORS_PURPOSE = "secure sum survivors"  # over `survivors_body`
SEALED_BYTES = 2 * SHARE_BYTES + OVERHEAD  # a share of a seed and one of a mask key
Place = Annotated[tuple[int, ...], Within(0, MOST_MEMBERS - 1)]
Signatures = Annotated[tuple[bytes, ...], exactly(SIGNATURE_BYTES)]
Sealed = Annotated[tuple[bytes, ...], exactly(SEALED_BYTES)]


class _Message:
    """What all have in common."""

    __slots__ = ()

    def to_fields(self) -> dict[str, Value]:
        return to_fields(self)

    @classmethod
    def from_fields(cls, found: Mapping[str, Any]) -> Self:
        """ConfigError for what no honest sender sends."""
        return from_fields(cls, found)


@dataclass(frozen=True, slots=True)
class Advertisement(_Message):
    """A member's fresh public keys, the digest of its seed, and its site's signature: see `Member`."""

    mask_key: Annotated[bytes, exactly(KEY_BYTES)]
    share_key: Annotated[bytes, exactly(KEY_BYTES)]
    seed_digest: Annotated[bytes, exactly(32)]
    signature: Annotated[bytes, exactly(SIGNATURE_BYTES)]


@dataclass(frozen=True, slots=True)
class Sharing(_Message):
    """agreement: the site's signature of the terms' digest. ciphertexts: by place, without its own."""

    agreement: Annotated[bytes, exactly(SIGNATURE_BYTES)]
    ciphertexts: Sealed


@dataclass(frozen=True, slots=True)
class Inbox(_Message):
    """agreements: of all, by place. ciphertexts: for the receiver, by sender's place."""

    agreements: Signatures
    ciphertexts: Sealed


@dataclass(frozen=True, slots=True)
class Masked(_Message):
    """vector: the masked numbers, 8 bytes each, little-endian."""

    vector: Annotated[bytes, Within(8, 8 * MOST_NUMBERS)]


@dataclass(frozen=True, slots=True)
class Survivors(_Message):
    """places: of those whose vectors are in the sum, rising."""

    places: Place


@dataclass(frozen=True, slots=True)
class Confirmation(_Message):
    """signature: the site's, of the terms' digest and the survivors."""

    signature: Annotated[bytes, exactly(SIGNATURE_BYTES)]


@dataclass(frozen=True, slots=True)
class Confirmations(_Message):
    """places: of those who have signed, rising; signatures: in that order."""

    places: Place
    signatures: Signatures


@dataclass(frozen=True, slots=True)
class Opening(_Message):
    """shares: by place; of a survivor its seed's, of another its mask key's."""

    shares: Annotated[tuple[bytes, ...], exactly(SHARE_BYTES)]


def survivors_body(digest: bytes, places: tuple[int, ...]) -> bytes:
    """What a confirmation signs; the digest has a fixed length."""
    return digest + bytes(places)
