"""The messages between members and server in one attempt, stage by stage.

                 server -> member                      member -> server
    1 advertise  Head                                  Advertisement
    2 share      Terms                                 Sharing
    3 check      Inbox                                 Checked, or Complaint
    4 mask       Checks                                Masked
    5 confirm    Survivors                             Confirmation
    6 open       Confirmations                         Opening

A place is a member's number in the terms, from 0. Lists "by place" have one entry for each member.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Self

from fl_dp.decoding import Range, length
from fl_dp.federation.secure_sum.key_shares import GAUGE_BYTES, SHARE_BYTES, Proof
from fl_dp.federation.secure_sum.keys import KEY_BYTES, OVERHEAD, SECRET_BYTES
from fl_dp.federation.secure_sum.terms import MEMBERS, MOST_NUMBERS, SIGNATURE_BYTES, Message
from fl_dp.records import MOST_MEMBERS

AGREEMENT_PURPOSE = "secure sum terms"  # of a signature, over the digest of the terms
CHECKED_PURPOSE = "secure sum key shares fit"  # over the digest of the terms
SURVIVORS_PURPOSE = "secure sum survivors"  # over `survivors_body`
SEALED_BYTES = 2 * SHARE_BYTES + OVERHEAD  # a share of a seed and one of a mask key
Place = Annotated[tuple[int, ...], MEMBERS, Range(0, MOST_MEMBERS - 1)]
Signatures = Annotated[tuple[bytes, ...], MEMBERS, length(SIGNATURE_BYTES)]
Pairs = Annotated[tuple[bytes, ...], MEMBERS, length(2 * SHARE_BYTES)]  # a seed's and a mask key's
Sealed = Annotated[tuple[bytes, ...], MEMBERS, length(SEALED_BYTES)]


@dataclass(frozen=True, slots=True)
class Advertisement(Message):
    """A member's fresh public keys and its site's signature: see `Member`."""

    mask_key: Annotated[bytes, length(KEY_BYTES)]
    share_key: Annotated[bytes, length(KEY_BYTES)]
    seed_key: Annotated[bytes, length(KEY_BYTES)]
    signature: Annotated[bytes, length(SIGNATURE_BYTES)]


@dataclass(frozen=True, slots=True)
class Sharing(Message):
    """agreement: the site's signature of the terms' digest. ciphertexts: by place, without its own.

    commitments, nonces, answers: pairs, from the two proofs that the shares fit the two keys: see `Proof`.
    """

    agreement: Annotated[bytes, length(SIGNATURE_BYTES)]
    ciphertexts: Sealed
    commitments: Pairs
    nonces: Annotated[bytes, length(2 * SHARE_BYTES)]
    answers: Pairs

    @classmethod
    def of(cls, agreement: bytes, ciphertexts: tuple[bytes, ...], seed: Proof, mask: Proof) -> Self:
        return cls(
            agreement, ciphertexts, in_pairs(seed.commitments, mask.commitments), seed.nonce + mask.nonce,
            in_pairs(seed.answer, mask.answer),
        )  # fmt: skip

    @property
    def proofs(self) -> tuple[Proof, Proof]:
        """The proofs of the seed's shares and of the mask key's."""
        halves = (slice(None, SHARE_BYTES), slice(SHARE_BYTES, None))
        seed, mask = (
            Proof(
                tuple(one[half] for one in self.commitments),
                self.nonces[half],
                tuple(one[half] for one in self.answers),
            )
            for half in halves
        )
        return seed, mask


@dataclass(frozen=True, slots=True)
class Inbox(Message):
    """agreements: all members', by place. ciphertexts: for the receiver, by sender's place; gauges: what the
    two shares in each must fit, from the sender's proofs, which the server has checked.
    """

    agreements: Signatures
    ciphertexts: Sealed
    gauges: Annotated[tuple[bytes, ...], MEMBERS, length(2 * GAUGE_BYTES)]


@dataclass(frozen=True, slots=True)
class Checked(Message):
    """signature: the site's, of the terms' digest: it can read all key shares for it, and they fit."""

    signature: Annotated[bytes, length(SIGNATURE_BYTES)]


@dataclass(frozen=True, slots=True)
class Complaint(Message):
    """Some key shares cannot be read or do not fit. share_key: the receiver's private key, by which the
    server itself sees whose. It opens what this attempt has dealt to and by this member, and it ends the
    attempt: no honest member masks without everybody's `Checked`.
    """

    share_key: Annotated[bytes, length(SECRET_BYTES)]


@dataclass(frozen=True, slots=True)
class Checks(Message):
    """signatures: from everybody's `Checked`, by place."""

    signatures: Signatures


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

    signature: Annotated[bytes, length(SIGNATURE_BYTES)]


@dataclass(frozen=True, slots=True)
class Confirmations(Message):
    """places: of the members that have signed, ascending; signatures: in that order."""

    places: Place
    signatures: Signatures


@dataclass(frozen=True, slots=True)
class Opening(Message):
    """shares: by place; of a survivor's seed, of any other member's mask key."""

    shares: Annotated[tuple[bytes, ...], MEMBERS, length(SHARE_BYTES)]


def survivors_body(digest: bytes, places: tuple[int, ...]) -> bytes:
    """What a confirmation signs; the digest has a fixed length."""
    return digest + bytes(places)


def in_pairs(of_seed: Iterable[bytes], of_mask_key: Iterable[bytes]) -> tuple[bytes, ...]:
    return tuple(one + other for one, other in zip(of_seed, of_mask_key, strict=True))
