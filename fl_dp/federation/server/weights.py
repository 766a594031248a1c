"""The weight of each client's update in the average, from public numbers that clients declare.

Nobody can check the size that a client declares. A cap keeps one that lies from dominating the average.
"""

import math
from collections.abc import Sequence

from fl_dp.config.run_settings import BY_NOISE, DECLARED
from fl_dp.records import ClientProfile, Entry

_ROUNDING = 1 + 1e-12


def weight_of(weights: str, profile: ClientProfile, mechanism: Entry) -> float:
    """The weight, > 0, by the run config's `weights`. mechanism: of the client's round.

    By noise: the inverse of the noise variance of each number of the update, up to a factor that all clients
    share. A step adds a variance of (rate sigma C / batch)^2, and the steps of a round add up; learning rate
    and C are the same for all. Of all weighted means this has the least noise.
    """
    if weights == DECLARED:
        return float(profile.public_size)
    if weights == BY_NOISE:
        batch = mechanism.sample_rate * profile.public_size
        return batch**2 / (mechanism.noise_multiplier**2 * mechanism.steps)
    return 1.0


def capped(weights: Sequence[float], most: float) -> list[float]:
    """Cap the weights so that none is more than `most` times the mean of the others.

    weights: > 0. most: >= 1, or 0 for no cap. No share of the total is then above most / (n - 1 + most). That
    is at most `most` equal shares; of two clients it allows one 2/3 at `most` 2, where two equal shares would
    be everything. The k largest weights are replaced by one value, with the least k for which the cap holds
    for all; the others stay.

    | weights           | most | capped                                                     |
    |-------------------|------|------------------------------------------------------------|
    | 100, 90, 80       | 2    | as they are                                                |
    | 6.4e6, 100        | 2    | 200, 100                                                   |
    | 6.4e6, 100, 100   | 2    | 200, 100, 100                                              |
    | 6.4e6, 6.4e6, 100 | 2    | as they are: each of the colluding clients has share 1/2   |
    """
    count = len(weights)
    if not most or count < 2:
        return list(weights)
    share = most / (count - 1 + most)
    falling = sorted(weights, reverse=True)
    for replaced in range(count):
        left = 1 - replaced * share  # share of those that keep their weights
        if left <= 0:
            break
        limit = share * math.fsum(falling[replaced:]) / left
        if falling[replaced] <= limit * _ROUNDING:
            return [min(weight, limit) for weight in weights] if replaced else list(weights)
    return [falling[-1]] * count
