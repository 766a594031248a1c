"""The weight of each client's update in the average, from public numbers that clients declare.

Nobody can check the size that a client declares. A cap keeps one that lies from dominating the average.
"""

import math
from collections.abc import Sequence

from fl_dp.config.run_settings import BY_NOISE, DECLARED
from fl_dp.records import ClientProfile, Entry

MOST = 2.0  # the largest weight, in multiples of the others' mean
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


def capped(weights: Sequence[float]) -> list[float]:
    """Cap the weights, which are > 0, so that none is more than MOST times the mean of the others.

    No share of the total is then above MOST / (n - 1 + MOST). That is at most MOST equal shares; of two
    clients it allows one 2/3, where two equal shares would be everything. The k largest weights are replaced
    by one value, with the least k for which the cap holds for all; the others stay.

    | weights           | capped                                                     |
    |-------------------|------------------------------------------------------------|
    | 100, 90, 80       | as they are                                                |
    | 6.4e6, 100        | 200, 100                                                   |
    | 6.4e6, 100, 100   | 200, 100, 100                                              |
    | 6.4e6, 6.4e6, 100 | as they are: each of the colluding clients has share 1/2   |
    """
    count = len(weights)
    if count < 2:
        return list(weights)
    share = MOST / (count - 1 + MOST)
    falling = sorted(weights, reverse=True)
    for replaced in range(count):
        left = 1 - replaced * share  # share of those that keep their weights
        if left <= 0:
            break
        limit = share * math.fsum(falling[replaced:]) / left
        if falling[replaced] <= limit * _ROUNDING:
            return [min(weight, limit) for weight in weights] if replaced else list(weights)
    return [falling[-1]] * count
