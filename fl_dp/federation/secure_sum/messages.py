"""The messages between members and server in one attempt, stage by stage.

                 server -> member                      member -> server
    1 advertise  Head                                  Advertisement
    2 share      Terms                                 Sharing
    3 mask       Inbox                                 Masked
    4 confirm    Survivors                             Confirmation
    5 open       Confirmations                         Opening

A place is a member's number in the terms, from 0. Lists "by place" have one entry for each member.
"""

from dataclasses import dataclass
from typing import Annotated

from fl_dp.federation.secure_sum.key_shares import SHARE_BYTES
from fl_dp.federation.secure_sum.keys import OVERHEAD
from fl_dp.federation.secure_sum.terms import MEMBERS, MOST_NUMBERS, Key, Message, Signature
from fl_dp.records import MOST_MEMBERS
from fl_dp.schema import Range, length

AGREEMENT_PURPOSE = "secure sum terms"  # of a signature, over the digest of the terms
SURVIVORS_PURPOSE = "secure sum survivors"  # over `survivors_body`
SEALED_BYTES = 2 * SHARE_BYTES + OVERHEAD  # a share of a seed and one of a mask key
Place = Annotated[tuple[Annotated[int, Range(0, MOST_MEMBERS - 1)], ...], MEMBERS]
Signatures = Annotated[tuple[Signature, ...], MEMBERS]
Sealed = Annotated[tuple[Annotated[bytes, length(SEALED_BYTES)], ...], MEMBERS]


@dataclass(frozen=True, slots=True)
class Advertisement(Message):
    """A member's fresh public keys and its site's signature: see `Member`."""

    mask_key: Key
    share_key: Key
    seed_key: Key
    signature: Signature


@dataclass(frozen=True, slots=True)
class Sharing(Message):
    """agreement: the site's signature of the terms' digest. ciphertexts: by place, without its own."""

    agreement: Signature
    ciphertexts: Sealed


@dataclass(frozen=True, slots=True)
class Inbox(Message):
    """agreements: all members', by place. ciphertexts: for the receiver, by sender's place."""

    agreements: Signatures
    ciphertexts: Sealed


@dataclass(frozen=True, slots=True)
class Masked(Message):
    """vector: the masked numbers, 8 bytes each, little-endian."""

    vector: Annotated[bytes, Range(8, 8 * MOST_NUMBERS)]


@dataclass(frozen=True, slots=True)
class Survivors(Message):
    """places: of the members whose vectors are in the sum, ascending."""

    places: Place


@dataclass(frozen=True, slots=True)
class Confirmation(Message):
    """signature: the site's, of the terms' digest and the survivors."""

    signature: Signature


@dataclass(frozen=True, slots=True)
class Confirmations(Message):
    """places: of the members that have signed, ascending; signatures: in that order."""

    places: Place
    signatures: Signatures


@dataclass(frozen=True, slots=True)
class Opening(Message):
    """shares: by place; of a survivor's seed, of any other member's mask key."""

    shares: Annotated[tuple[Annotated[bytes, length(SHARE_BYTES)], ...], MEMBERS]


def survivors_body(digest: bytes, places: tuple[int, ...]) -> bytes:
    """What a confirmation signs; the digest has a fixed length."""
    return digest + bytes(places)
