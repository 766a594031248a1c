"""One member of one attempt: what it answers at each stage, and what it refuses.

Each stage is answered once, in order. Whatever else is asked for, and every message that does not hold, ends
the attempt for this member: its secrets are dropped and nothing more is answered. Between stages it lives as
bytes, since each message is answered in a process of its own; whoever keeps them must keep the newest alone,
and have kept them before the answer leaves: a stage that is answered twice is what all this prevents.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Self

import numpy as np
from numpy.typing import NDArray

from fl_dp.errors import DeclinedError
from fl_dp.federation.secure_sum import keys, masks
from fl_dp.federation.secure_sum.key_shares import SHARE_BYTES, is_share, split
from fl_dp.federation.secure_sum.limits import Limits
from fl_dp.federation.secure_sum.member_state import ENDED, MemberState
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

_SEED, _MASK, _SHARE = "seed", "mask key", "share key"  # names of secrets


class Participant:
    """A member between its stages: begin, share, accept, mask, confirm, open."""

    def __init__(self, state: MemberState, key: SigningKey) -> None:
        self._state, self._key = state, key

    @classmethod
    def begin(cls, head: Head, limits: Limits, key: SigningKey) -> tuple[Self, Advertisement]:
        """Stage 1: fresh keys for what `head` proposes. key: the site's own.

        DeclinedError unless the head's numbers are within the client's `limits`.
        """
        check_head(head, limits)
        secrets = {name: keys.fresh_secret() for name in (_SEED, _MASK, _SHARE)}
        public = (
            keys.public_of(secrets[_MASK]),
            keys.public_of(secrets[_SHARE]),
            keys.seed_digest(secrets[_SEED]),
        )
        signature = key.sign(KEYS_PURPOSE, keys_body(head, *public))
        return cls(MemberState("begun", head, secrets), key), Advertisement(*public, signature)

    @classmethod
    def from_bytes(cls, content: bytes, key: SigningKey) -> Self:
        """ConfigError for what this version has not written."""
        return cls(MemberState.from_bytes(content), key)

    def to_bytes(self) -> bytes:
        """Secret: as secret as the data until the attempt is over."""
        return self._state.to_bytes()

    @property
    def head(self) -> Head:
        return self._state.head

    def share(self, terms: Terms, limits: Limits, roster: Collection[str]) -> Sharing:
        """Stage 2: its agreement to the terms, and for each other member the shares of its secrets.

        roster: the site keys of the client's own kit. DeclinedError for terms that `check_terms` refuses, or
        that are not of the head and keys of stage 1.
        """
        state = self._state
        with self._stage("begun", "shared"):
            check_terms(terms, limits, roster, self._key.public)
            own = terms.place_of(self._key.public)
            self._check_own(terms, terms.members[own])
            state.terms, digest = terms, terms.digest
            for place in self._others(own):  # else a useless key would be found out after the payment
                member = terms.members[place]
                keys.agreed(state.secrets[_MASK], member.mask_key, repr(member.name))
            of_seed, of_key = (
                split(state.secrets[name], terms.head.clients, terms.head.threshold)
                for name in (_SEED, _MASK)
            )
            pairs = [seed + key for seed, key in zip(of_seed, of_key, strict=True)]
            state.shares = {own: pairs[own]}
            sealed = [
                keys.sealed(self._share_key(place, own, place), pairs[place], digest)
                for place in self._others(own)
            ]
            return Sharing(self._key.sign(AGREEMENT_PURPOSE, digest), tuple(sealed))

    def accept(self, inbox: Inbox) -> None:
        """Stage 3, before anything is paid: everybody has agreed to the same, and every share can be read.

        DeclinedError, with the first member whose agreement or share does not hold.
        """
        state = self._state
        with self._stage("shared", "accepted"):
            terms, own = self._terms(), self._own()
            digest, others = terms.digest, self._others(own)
            if len(inbox.agreements) != len(terms.members) or len(inbox.ciphertexts) != len(others):
                raise DeclinedError(f"A secure sum's inbox that is not of {len(terms.members)} members.")
            for member, agreement in zip(terms.members, inbox.agreements, strict=True):
                if not is_signed(member.site, AGREEMENT_PURPOSE, digest, agreement):
                    raise DeclinedError(f"{member.name!r} has not agreed to the same terms of a secure sum.")
            for place, content in zip(others, inbox.ciphertexts, strict=True):
                text = keys.unsealed(self._share_key(place, place, own), content, digest)
                if text is None or not (is_share(text[:SHARE_BYTES]) and is_share(text[SHARE_BYTES:])):
                    raise DeclinedError(f"{terms.members[place].name!r}: its key shares cannot be read.")
                state.shares[place] = text
            del state.secrets[_SHARE]

    def mask(self, integers: NDArray[np.int64]) -> Masked:
        """Stage 3, after paying: the integers with all masks. integers: sum of clipped gradients plus noise.

        The secrets that masks are made of are dropped: what is masked once can be masked no second time.
        """
        state = self._state
        with self._stage("accepted", "masked"):
            terms, own = self._terms(), self._own()
            if integers.shape != (terms.head.numbers,) or integers.dtype != np.int64:
                raise DeclinedError(f"A vector that is not {terms.head.numbers} integers of 64 bits.")
            total: NDArray[np.uint64] = integers.copy().view(np.uint64)
            digest, site = terms.digest, self._key.public
            masks.add_stream(total, masks.own_key(state.secrets.pop(_SEED), digest, site))
            private = state.secrets.pop(_MASK)
            for place in self._others(own):
                other = terms.members[place]
                key = masks.pair_key(private, other.mask_key, digest, site, other.site, repr(other.name))
                masks.add_stream(total, key, masks.pair_sign(site, other.site))
            return Masked(total.astype("<u8", copy=False).tobytes())

    def confirm(self, survivors: Survivors) -> Confirmation:
        """Stage 4: its signature that these and no others are in the sum.

        DeclinedError unless they are K - d members or more, itself among them.
        """
        with self._stage("masked", "confirmed"):
            terms, places = self._terms(), survivors.places
            least = terms.head.clients - terms.head.dropouts
            if list(places) != sorted(set(places)) or not set(places) <= set(range(len(terms.members))):
                raise DeclinedError("Survivors of a secure sum that are not its members, each once.")
            if len(places) < least:
                raise DeclinedError(
                    f"A secure sum of {counted(len(places), 'client')}: expected at least {least}."
                )
            if self._own() not in places:
                raise DeclinedError("A secure sum without this client's own vector.")
            self._state.survivors = places
            return Confirmation(self._key.sign(SURVIVORS_PURPOSE, survivors_body(terms.digest, places)))

    def open(self, confirmations: Confirmations) -> Opening:
        """Stage 5: of each survivor the share of its seed, of each other the share of its mask key.

        DeclinedError unless t survivors or more have confirmed the very survivors that it has confirmed.
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
            raise DeclinedError("Confirmations of a secure sum that are not of one member each.")
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

    def _check_own(self, terms: Terms, own: Member) -> None:
        secrets = self._state.secrets
        if terms.head != self._state.head:
            raise DeclinedError("Terms of a secure sum that are not those this client has made keys for.")
        expected = (
            keys.public_of(secrets[_MASK]),
            keys.public_of(secrets[_SHARE]),
            keys.seed_digest(secrets[_SEED]),
        )
        if (own.mask_key, own.share_key, own.seed_digest) != expected:
            raise DeclinedError("Terms of a secure sum with other keys than this client's own.")

    def _share_key(self, other: int, sender: int, receiver: int) -> bytes:
        """Of the shares that one member seals for another, of whom this client is one; of one direction."""
        terms = self._terms()
        member = terms.members[other]
        secret = keys.agreed(self._state.secrets[_SHARE], member.share_key, repr(member.name))
        sites = (terms.members[sender].site, terms.members[receiver].site)
        return keys.derived(secret, terms.digest, "key shares", *sites)

    def _terms(self) -> Terms:
        assert self._state.terms is not None  # every stage after the second has them
        return self._state.terms

    def _own(self) -> int:
        return self._terms().place_of(self._key.public)

    def _others(self, own: int) -> list[int]:
        return [place for place in range(self._state.head.clients) if place != own]

    @contextmanager
    def _stage(self, expected: str, then: str) -> Iterator[None]:
        """Whatever happens within, nothing is answered at this stage again."""
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
