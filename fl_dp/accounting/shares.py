"""The number of clients' shares that make up the noise of a secure sum."""

from fl_dp.errors import ConfigError
from fl_dp.records import MOST_MEMBERS

LEAST_MEMBERS = 3


def honest_shares(members: int, dropouts: int, colluders: int) -> int:
    """K - d - c: the number of shares in every opened sum that the server and its colluders do not know.

    That many shares, each of variance (sigma C)^2 / (K - d - c), make up the whole noise. ConfigError for
    sums that no threshold of key shares protects. The threshold must be above (K + c) / 2, so that the two
    halves of a divided group cannot both be opened, and at most K - d, as only so many members may remain.
    """
    if not LEAST_MEMBERS <= members <= MOST_MEMBERS:
        raise ConfigError(f"members = {members}: expected {LEAST_MEMBERS} to {MOST_MEMBERS} in a secure sum.")
    if dropouts < 0 or colluders < 1:
        raise ConfigError(
            f"dropouts = {dropouts}, colluders = {colluders}: expected dropouts >= 0 and colluders >= 1, as "
            "each member knows its own share of the noise."
        )
    if 2 * (members - dropouts) <= members + colluders:
        raise ConfigError(
            f"members = {members}, dropouts = {dropouts}, colluders = {colluders}: no threshold is above "
            "(members + colluders) / 2 and at most members - dropouts; use more members, or allow fewer "
            "dropouts or colluders."
        )
    return members - dropouts - colluders
