"""How many members, drop-outs and colluders go together, and what a client insists on.

K members, of whom d may drop out and c may tell the server everything; t key shares open a key. Two rules,
for which docs/secure-aggregation.md gives the argument:

    t <= K - d        else a sum of K - d members could never be opened
    2 t > K + c       at most K + c statements can be had where an honest member makes one of two, and a
                      colluder both: so no two survivor sets, and no two keys of one member, have t each

Server and client ask the same functions.
"""

from dataclasses import dataclass

from fl_dp.errors import DeclinedError
from fl_dp.federation.secure_sum.fields import MOST_MEMBERS

LEAST_MEMBERS = 3


@dataclass(frozen=True, slots=True)
class Limits:
    """What a client's own settings insist on.

    least_clients: the fewest whose sum may be opened, of K - d. least_shares: of noise, of K - d - c.
    least_colluders: how many clients it does not trust, of c. most_dropouts: of d.
    """

    least_clients: int = 2
    least_shares: int = 1
    least_colluders: int = 1
    most_dropouts: int = MOST_MEMBERS


def shares_of(clients: int, dropouts: int, colluders: int) -> int:
    """K - d - c: the shares of noise that are in every opened sum and known to no colluder.

    DeclinedError if there is none, or if the numbers are no numbers of a secure sum.
    """
    if not LEAST_MEMBERS <= clients <= MOST_MEMBERS:
        raise DeclinedError(
            f"A secure sum of {clients} clients: expected {LEAST_MEMBERS} to {MOST_MEMBERS}; choose as many."
        )
    if dropouts < 0:
        raise DeclinedError(f"A secure sum with {dropouts} drop-outs: expected 0 or more.")
    if colluders < 1:
        raise DeclinedError(
            f"A secure sum with {colluders} colluders: expected 1 or more, since each client knows its own "
            "share of noise."
        )
    shares = clients - dropouts - colluders
    if shares < 1:
        raise DeclinedError(
            f"A secure sum of {clients} clients with {dropouts} drop-outs and {colluders} colluders: no "
            "share of noise is left; ask more clients, or allow fewer drop-outs."
        )
    return shares


def least_threshold(clients: int, colluders: int) -> int:
    """The least t with 2 t > K + c."""
    return (clients + colluders) // 2 + 1


def check_threshold(clients: int, dropouts: int, colluders: int, threshold: int) -> None:
    """DeclinedError unless (K + c) / 2 < t <= K - d; names what would do."""
    shares_of(clients, dropouts, colluders)
    least, most = least_threshold(clients, colluders), clients - dropouts
    if least > most:
        raise DeclinedError(
            f"A secure sum of {clients} clients with {dropouts} drop-outs and {colluders} colluders: a "
            f"threshold would have to be at least {least} and at most {most}; ask more clients, or allow "
            "fewer drop-outs."
        )
    if not least <= threshold <= most:
        raise DeclinedError(
            f"A secure sum with threshold {threshold}: expected {least} to {most} for {clients} clients, "
            f"{dropouts} drop-outs and {colluders} colluders."
        )


def most_dropouts(clients: int, colluders: int) -> int:
    """The most d for which a threshold exists; DeclinedError where there is none even for d = 0."""
    found = clients - least_threshold(clients, colluders)
    shares_of(clients, max(found, 0), colluders)
    return found
