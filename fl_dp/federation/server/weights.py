"""What each client's update counts in the average: a function of public numbers, which clients declare.

Nothing can check what a client declares of its size. A cap keeps one that lies from owning the average.
"""

import math
from collections.abc import Sequence

from fl_dp.config.run import BY_NOISE, DECLARED
from fl_dp.records import ClientProfile, Entry

_ROUNDING = 1 + 1e-12


def weight_of(weights: str, profile: ClientProfile, mechanism: Entry) -> float:
    """The weight, > 0, by the run config's `weights`. mechanism: of the client's round.

    By noise: the inverse of the variance that noise gives each number of the update, up to a factor that all
    clients share. A step adds noise of (rate sigma C / batch)^2, and all steps of a round add up; learning
    rate and C are the same for all. The mean with these weights has the least noise of all means.
    """
    if weights == DECLARED:
        return float(profile.public_size)
    if weights == BY_NOISE:
        batch = mechanism.sample_rate * profile.public_size
        return batch**2 / (mechanism.noise_multiplier**2 * mechanism.steps)
    return 1.0


def capped(weights: Sequence[float], most: float) -> list[float]:
    """The weights, of which none is more than `most` times the mean of the others. 0: as they are.

    weights: > 0. most: 0, or >= 1. No share is then above most / (n - 1 + most): that is at most `most` equal
    shares, and it holds one of two clients to 2/3 where `most` equal shares would be all. The k largest get
    one value in the place of theirs, with the least k for which it holds of all; the others keep theirs.

    | weights           | most | capped                                                     |
    |-------------------|------|------------------------------------------------------------|
    | 100, 90, 80       | 2    | as they are                                                |
    | 6.4e6, 100        | 2    | 200, 100                                                   |
    | 6.4e6, 100, 100   | 2    | 200, 100, 100                                              |
    | 6.4e6, 6.4e6, 100 | 2    | as they are: of those that collude each has its share, 1/2 |
    """
    count = len(weights)
    if not most or count < 2:
        return list(weights)
    share = most / (count - 1 + most)
    falling = sorted(weights, reverse=True)
    for replaced in range(count):
        left = 1 - replaced * share  # for those that keep their weights
        if left <= 0:
            break
        limit = share * math.fsum(falling[replaced:]) / left
        if falling[replaced] <= limit * _ROUNDING:
            return [min(weight, limit) for weight in weights] if replaced else list(weights)
    return [falling[-1]] * count
