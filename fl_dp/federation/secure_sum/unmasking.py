"""The server's last step: secrets from key shares, each checked by what its owner has signed; masks off."""

from collections.abc import Collection, Mapping, Sequence

from fl_dp.errors import DeclinedError, FederationError
from fl_dp.federation.secure_sum import keys, masks
from fl_dp.federation.secure_sum.key_shares import Gauges, Opener, fits
from fl_dp.federation.secure_sum.terms import Member, Terms


class Unmasking:
    """shares: by place of who opened, what it gave by place. survivors: whose vectors are in the sum.

    gauges: by dealer's place, of its seed's shares and of its mask key's.
    wrong: places of those who gave a share that is not the one they were dealt.
    """

    def __init__(
        self,
        terms: Terms,
        survivors: Collection[int],
        shares: Mapping[int, Sequence[bytes]],
        gauges: Sequence[tuple[Gauges, Gauges]],
    ) -> None:
        self._terms, self._digest, self._shares, self._gauges = terms, terms.digest, shares, gauges
        self._survivors = set(survivors)
        self._opener = Opener(list(shares), terms.head.threshold)

    @property
    def wrong(self) -> set[int]:
        return self._opener.wrong

    def take_off(self, total: masks.Words) -> None:
        """In place: each survivor's own mask, and its masks with those who are not in the sum.

        FederationError, with the member's name, for a secret that the shares do not give.
        """
        everybody = range(len(self._terms.members))
        secrets = [self._secret(place) for place in everybody]  # first, so that a lost sum is not half open
        for place, secret in enumerate(secrets):
            member = self._terms.members[place]
            if place in self._survivors:
                masks.add_stream(total, masks.own_key(secret, self._digest, member.site), -1)
            else:
                self._take_off_pairs(total, secret, member)

    def _take_off_pairs(self, total: masks.Words, private: bytes, gone: Member) -> None:
        for place in self._survivors:
            other = self._terms.members[place]
            try:
                key = masks.pair_key(
                    private, other.mask_key, self._digest, gone.site, other.site, repr(other.name)
                )
            except DeclinedError as error:
                raise FederationError(str(error)) from None
            masks.add_stream(total, key, -masks.pair_sign(other.site, gone.site))

    def _secret(self, place: int) -> bytes:
        member, is_in = self._terms.members[place], place in self._survivors
        public, gauges = member.seed_key if is_in else member.mask_key, self._gauges[place][not is_in]
        given = {opener: shares[place] for opener, shares in self._shares.items()}
        found = self._opener.open(
            given, lambda secret: _is_private(secret, public), lambda one: fits(given[one], gauges.of(one))
        )
        if found is None:
            raise FederationError(f"too few have opened the key shares that {member.name!r} dealt them")
        return found


def _is_private(secret: bytes, public: bytes) -> bool:
    return any(secret) and keys.public_of(secret) == public
