"""Which numbers of members, drop-outs and colluders are allowed, and what a client requires.

K members, of whom d may drop out and c may tell the server everything; t key shares open a key. Two rules,
for which docs/secure-aggregation.md gives the argument:

    t <= K - d        otherwise a sum of K - d members could never be opened
    2 t > K + c       of two statements an honest member signs one and a colluder both, K + c in total at
                      most; so no two survivor sets, and no two keys of one member, have t signatures each

Server and client use the same functions.
"""

from collections.abc import Collection
from dataclasses import dataclass

from fl_dp.accounting.shares import honest_shares
from fl_dp.errors import ConfigError, DeclinedError
from fl_dp.kits.keys import SigningKey
from fl_dp.records import MOST_MEMBERS
from fl_dp.reporting.wording import counted


@dataclass(frozen=True, slots=True)
class Limits:
    """What a client's own settings require.

    least_clients: the fewest whose sum may be opened, for K - d. least_shares: of noise, for K - d - c.
    least_colluders: how many clients it does not trust, for c. most_dropouts: for d.
    """

    least_clients: int = 2
    least_shares: int = 1
    least_colluders: int = 1
    most_dropouts: int = MOST_MEMBERS


@dataclass(frozen=True, slots=True)
class Identity:
    """A client in secure sums.

    key: its site's. roster: public keys of all sites in its own kit; nobody else can be a member.
    """

    key: SigningKey
    roster: Collection[str]


def checked_shares(clients: int, dropouts: int, colluders: int) -> int:
    """K - d - c, by `honest_shares`; DeclinedError if no secure sum has these numbers."""
    try:
        return honest_shares(clients, dropouts, colluders)
    except ConfigError as error:
        raise DeclinedError(f"A secure sum with {error}") from None


def least_threshold(clients: int, colluders: int) -> int:
    return (clients + colluders) // 2 + 1


def check_threshold(clients: int, dropouts: int, colluders: int, threshold: int) -> None:
    """DeclinedError, with the allowed range, unless (K + c) / 2 < t <= K - d."""
    checked_shares(clients, dropouts, colluders)
    least, most = least_threshold(clients, colluders), clients - dropouts
    if not least <= threshold <= most:
        raise DeclinedError(
            f"A secure sum with threshold {threshold}: expected {least} to {most} for "
            f"{counted(clients, 'client')}, {counted(dropouts, 'drop-out')} and "
            f"{counted(colluders, 'colluder')}."
        )
