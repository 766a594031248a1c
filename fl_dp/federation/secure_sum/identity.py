"""Who a client is to the other members of its sums."""

from collections.abc import Collection
from dataclasses import dataclass

from fl_dp.kits.keys import SigningKey


@dataclass(frozen=True, slots=True)
class Identity:
    """key: of its site. roster: public keys of all sites of its own kit; nobody else can be a member."""

    key: SigningKey
    roster: Collection[str]
