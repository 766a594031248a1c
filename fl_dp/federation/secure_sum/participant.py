"""One member of one attempt: what it answers at each stage, and what it refuses.

Each stage is answered once, in order. Any other request, and every message that fails a check, ends the
attempt for this member: its secrets are dropped and nothing more is answered. Each message is answered in its
own process, so the state is kept as bytes between stages. The caller must keep only the newest bytes, and
store them before the answer leaves; otherwise a stage could be answered twice, which must never happen.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fl_dp.errors import ConfigError, DeclinedError
from fl_dp.federation.secure_sum import keys, masks
from fl_dp.federation.secure_sum.key_shares import SHARE_BYTES, deal, is_share
from fl_dp.federation.secure_sum.limits import Limits
from fl_dp.federation.secure_sum.messages import (
    AGREEMENT_PURPOSE,
    SURVIVORS_PURPOSE,
    Advertisement,
    Confirmation,
    Confirmations,
    Inbox,
    Masked,
    Opening,
    Sharing,
    Survivors,
    survivors_body,
)
from fl_dp.federation.secure_sum.terms import (
    KEYS_PURPOSE,
    Head,
    Member,
    Terms,
    check_head,
    check_terms,
    keys_body,
)
from fl_dp.kits.keys import SigningKey, is_signed
from fl_dp.reporting.wording import counted

SEED, MASK_KEY = "seed", "mask key"  # the secrets that are dealt in shares
_SHARE = "share key"  # one that is not
ENDED = "ended"
_VERSION = 3
_BYTES = "bytes"


@dataclass(slots=True)
class MemberState:
    """A member's state between two stages.

    secrets: by name, each until it is no longer needed. shares: by place, of a member's seed and mask key.
    survivors: those that it has confirmed.
    """

    stage: str
    head: Head
    secrets: dict[str, bytes] = field(default_factory=dict, repr=False)
    terms: Terms | None = None
    shares: dict[int, bytes] = field(default_factory=dict, repr=False)
    survivors: tuple[int, ...] = ()

    def forget(self) -> None:
        """Drop all secrets. Python frees their memory, but does not overwrite it."""
        self.stage = ENDED
        self.secrets.clear()
        self.shares.clear()


class Participant:
    """A member between its stages: begin, share, accept, mask, confirm, open."""

    def __init__(self, state: MemberState, key: SigningKey) -> None:
        self._state, self._key = state, key

    @classmethod
    def begin(cls, head: Head, limits: Limits, key: SigningKey) -> tuple[Self, Advertisement]:
        """Stage 1: make fresh keys for the proposed `head`. key: the site's own.

        DeclinedError unless the head's numbers are within the client's `limits`.
        """
        check_head(head, limits)
        secrets = {name: keys.fresh_secret() for name in (SEED, MASK_KEY, _SHARE)}
        public = _public(secrets)
        signature = key.sign(KEYS_PURPOSE, keys_body(head, *public))
        return cls(MemberState("begun", head, secrets), key), Advertisement(*public, signature)

    @classmethod
    def from_bytes(cls, content: bytes, key: SigningKey) -> Self:
        """The inverse of `to_bytes`; ConfigError for bytes that this version has not written."""
        try:
            table = json.loads(content, object_hook=_bytes_again)
            if table["version"] != _VERSION:
                raise ConfigError(f"A member's state of version {table['version']}: expected {_VERSION}.")
            state = MemberState(
                table["stage"],
                Head.from_fields(table["head"]),
                table["secrets"],
                Terms.from_fields(table["terms"]) if table["terms"] else None,
                {int(place): one for place, one in table["shares"].items()},
                tuple(table["survivors"]),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            if isinstance(error, ConfigError):
                raise
            raise ConfigError(f"No readable state of a member ({type(error).__name__}).") from None
        return cls(state, key)

    def to_bytes(self) -> bytes:
        """The state as bytes, never for a disk: until the attempt ends they are as secret as the data."""
        state = self._state
        table = {
            "version": _VERSION,
            "stage": state.stage,
            "head": state.head.to_fields(),
            "terms": state.terms.to_fields() if state.terms else None,
            "secrets": state.secrets,
            "shares": {str(place): one for place, one in state.shares.items()},
            "survivors": state.survivors,
        }
        return json.dumps(table, default=lambda one: {_BYTES: one.hex()}).encode()

    @property
    def head(self) -> Head:
        return self._state.head

    def share(self, terms: Terms, limits: Limits, roster: Collection[str]) -> Sharing:
        """Stage 2: agree to the terms, and deal shares of its secrets to each other member.

        roster: the site keys of the client's own kit. DeclinedError for terms that `check_terms` refuses, or
        with another head or other keys than those of stage 1.
        """
        state = self._state
        with self._stage("begun", "shared"):
            check_terms(terms, limits, roster, self._key.public)
            own = terms.place_of(self._key.public)
            self._check_own(terms, terms.members[own])
            state.terms, numbers = terms, (terms.head.clients, terms.head.threshold)
            for place in self._others(own):  # otherwise a useless key would be noticed only after payment
                member = terms.members[place]
                keys.agreed(state.secrets[MASK_KEY], member.mask_key, repr(member.name))
            dealt = (deal(state.secrets[name], *numbers) for name in (SEED, MASK_KEY))
            pairs = [of_seed + of_key for of_seed, of_key in zip(*dealt, strict=True)]
            state.shares = {own: pairs[own]}
            private = state.secrets[_SHARE]
            sealed = [
                keys.sealed(sealing_key(private, terms, place, own, place), pairs[place], terms.digest)
                for place in self._others(own)
            ]
            return Sharing(self._key.sign(AGREEMENT_PURPOSE, terms.digest), tuple(sealed))

    def accept(self, inbox: Inbox) -> None:
        """Stage 3, before paying: check that all members have agreed to the same terms, and keep the key
        shares for this member.

        DeclinedError names the first member that has not agreed, or whose key shares cannot be read.
        """
        state = self._state
        with self._stage("shared", "accepted"):
            terms, own = self._terms(), self._own()
            self._check_agreements(inbox.agreements)
            if len(inbox.ciphertexts) != len(terms.members) - 1:
                raise DeclinedError("A secure sum's inbox: expected key shares of every other member.")
            private = state.secrets.pop(_SHARE)
            for place, content in zip(self._others(own), inbox.ciphertexts, strict=True):
                pair = keys.unsealed(sealing_key(private, terms, place, place, own), content, terms.digest)
                halves = (pair[:SHARE_BYTES], pair[SHARE_BYTES:]) if pair else ()
                if pair is None or not all(map(is_share, halves)):
                    raise DeclinedError(
                        f"The key shares that {terms.members[place].name!r} dealt for a secure sum cannot be "
                        "read: this member is suspected."
                    )
                state.shares[place] = pair

    def mask(self, integers: NDArray[np.int64]) -> Masked:
        """Stage 3, after paying: add all masks. integers: sum of clipped gradients plus noise.

        The secrets behind the masks are dropped, so nothing can be masked a second time.
        """
        state = self._state
        with self._stage("accepted", "masked"):
            terms, own = self._terms(), self._own()
            if integers.shape != (terms.head.numbers,) or integers.dtype != np.int64:
                raise DeclinedError(f"A vector that is not {terms.head.numbers} integers of 64 bits.")
            total: NDArray[np.uint64] = integers.copy().view(np.uint64)
            digest, site = terms.digest, self._key.public
            masks.add_stream(total, masks.own_key(state.secrets.pop(SEED), digest, site))
            private = state.secrets.pop(MASK_KEY)
            for place in self._others(own):
                other = terms.members[place]
                key = masks.pair_key(private, other.mask_key, digest, site, other.site, repr(other.name))
                masks.add_stream(total, key, masks.pair_sign(site, other.site))
            return Masked(total.astype("<u8", copy=False).tobytes())

    def confirm(self, survivors: Survivors) -> Confirmation:
        """Stage 4: sign that these members and no others are in the sum.

        DeclinedError unless they are at least K - d members, itself included.
        """
        with self._stage("masked", "confirmed"):
            terms, places = self._terms(), survivors.places
            least = terms.head.clients - terms.head.dropouts
            if list(places) != sorted(set(places)) or not set(places) <= set(range(len(terms.members))):
                raise DeclinedError("Survivors of a secure sum: expected members of it, each once, in order.")
            if len(places) < least:
                raise DeclinedError(
                    f"A secure sum of {counted(len(places), 'client')}: expected at least {least}."
                )
            if self._own() not in places:
                raise DeclinedError("A secure sum without this client's own vector.")
            self._state.survivors = places
            return Confirmation(self._key.sign(SURVIVORS_PURPOSE, survivors_body(terms.digest, places)))

    def open(self, confirmations: Confirmations) -> Opening:
        """Stage 5: open its share of each survivor's seed, and its share of every other member's mask key.

        DeclinedError unless at least t survivors have confirmed the same survivors as itself.
        """
        state = self._state
        with self._stage("confirmed", ENDED):
            terms, survivors = self._terms(), set(state.survivors)
            self._check_confirmations(terms, confirmations)
            opened = (
                state.shares[place][:SHARE_BYTES] if place in survivors else state.shares[place][SHARE_BYTES:]
                for place in range(len(terms.members))
            )
            answer = Opening(tuple(opened))
            state.forget()
            return answer

    def _check_confirmations(self, terms: Terms, found: Confirmations) -> None:
        places, least = found.places, terms.head.threshold
        if len(places) != len(found.signatures) or list(places) != sorted(set(places)):
            raise DeclinedError("Confirmations of a secure sum: expected one of each confirming member.")
        if not set(places) <= set(self._state.survivors):
            raise DeclinedError("Confirmations of a secure sum by others than its survivors.")
        if len(places) < least:
            raise DeclinedError(
                f"{counted(len(places), 'confirmation')} of a secure sum: expected at least {least}."
            )
        body = survivors_body(terms.digest, self._state.survivors)
        for place, signature in zip(places, found.signatures, strict=True):
            member = terms.members[place]
            if not is_signed(member.site, SURVIVORS_PURPOSE, body, signature):
                raise DeclinedError(f"{member.name!r} has not confirmed the same survivors of a secure sum.")

    def _check_agreements(self, found: Sequence[bytes]) -> None:
        terms = self._terms()
        if len(found) != len(terms.members):
            raise DeclinedError("Agreements to a secure sum: expected one of each member.")
        for member, signature in zip(terms.members, found, strict=True):
            if not is_signed(member.site, AGREEMENT_PURPOSE, terms.digest, signature):
                raise DeclinedError(f"{member.name!r} has not agreed to the same terms of a secure sum.")

    def _check_own(self, terms: Terms, own: Member) -> None:
        if terms.head != self._state.head:
            raise DeclinedError("Terms of a secure sum that differ from those this client made keys for.")
        if own.keys != _public(self._state.secrets):
            raise DeclinedError("Terms of a secure sum with other keys than this client's own.")

    def _terms(self) -> Terms:
        assert self._state.terms is not None  # every stage after the second has them
        return self._state.terms

    def _own(self) -> int:
        return self._terms().place_of(self._key.public)

    def _others(self, own: int) -> list[int]:
        return [place for place in range(self._state.head.clients) if place != own]

    @contextmanager
    def _stage(self, expected: str, then: str) -> Iterator[None]:
        """Run one stage. Whatever happens within, nothing is answered at this stage again."""
        found, self._state.stage = self._state.stage, ENDED
        if found != expected:
            self._state.forget()
            raise DeclinedError(f"A secure sum's stage out of order: this client is at {found!r}.")
        try:
            yield
        except BaseException:
            self._state.forget()
            raise
        self._state.stage = then


def sealing_key(private: bytes, terms: Terms, other: int, sender: int, receiver: int) -> bytes:
    """The key with which `sender` seals for `receiver`. private: share key of the one that is not `other`."""
    member = terms.members[other]
    secret = keys.agreed(private, member.share_key, repr(member.name))
    sites = (terms.members[sender].site, terms.members[receiver].site)
    return keys.derived(secret, terms.digest, "key shares", *sites)


def _public(secrets: Mapping[str, bytes]) -> tuple[bytes, bytes, bytes]:
    """The public keys, in the order of `Member.keys`."""
    mask_key, share_key, seed_key = (keys.public_of(secrets[name]) for name in (MASK_KEY, _SHARE, SEED))
    return mask_key, share_key, seed_key


def _bytes_again(found: dict[str, Any]) -> Any:
    return bytes.fromhex(found[_BYTES]) if found.keys() == {_BYTES} else found
