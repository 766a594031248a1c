"""A client's identity in secure sums."""

from collections.abc import Collection
from dataclasses import dataclass

from fl_dp.kits.keys import SigningKey


@dataclass(frozen=True, slots=True)
class Identity:
    """key: its site's. roster: public keys of all sites in its own kit; nobody else can be a member."""

    key: SigningKey
    roster: Collection[str]
