"""What a server makes of the key shares of an attempt, with what its colluders tell it."""

import numpy as np
from federation.secure_sum.attempts import Integers, Played, words

from fl_dp.federation.secure_sum import key_shares, masks
from fl_dp.federation.secure_sum.key_shares import SHARE_BYTES
from fl_dp.federation.secure_sum.messages import Masked, Opening


def secret_of(place: int, openings: dict[int, Opening], threshold: int) -> bytes:
    """The secret of the member at `place` that these openings give."""
    shares = {opener: opening.shares[place] for opener, opening in openings.items()}
    return key_shares.secret_of(shares, threshold)


def unmasked(played: Played, place: int, masked: Masked, seed: bytes, private: bytes) -> Integers:
    """A member's vector without its masks, if these are its seed and its mask key."""
    terms = played.server.terms()
    total, own = words(masked).copy(), terms.members[place]
    masks.add_stream(total, masks.own_key(seed, terms.digest, own.site), -1)
    for other in terms.members:
        if other.site != own.site:
            key = masks.pair_key(private, other.mask_key, terms.digest, own.site, other.site, other.name)
            masks.add_stream(total, key, -masks.pair_sign(own.site, other.site))
    return total.view(np.int64)


def told(played: Played, colluder: int, place: int) -> tuple[bytes, bytes]:
    """A colluder's shares of another member's seed and mask key: it keeps them from nobody."""
    pair = played.members[colluder]._state.shares[place]
    return pair[:SHARE_BYTES], pair[SHARE_BYTES:]
