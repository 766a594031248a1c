"""How adaptive clipping splits a step's charge between its noised count and the clipped sum.

A step releases the clipped sum, which one record moves by at most the bound C, and a count, which it moves by
at most 1/2 (each example adds something from -1/2 to 1/2: Andrew, Thakkar, McMahan, Ramaswamy 2021, arXiv
1905.03871, section 2.2). Let the deviations be z_sum C and z_count / 2. Then one record moves the vector of
both, each divided by its deviation, by at most

    sqrt(1 / z_sum^2 + 1 / z_count^2) = 1 / z,

so that the step is one Gaussian mechanism of noise multiplier z (ibid., theorem 1). A plan names z and a
ledger charges it. Here it is split; therefore z_sum > z.
"""

import math
from dataclasses import dataclass

from fl_dp.errors import ConfigError

_OF_BATCH = 20.0  # the count's deviation is the expected batch over this (ibid., section 3.1), or larger:
_MOST_SHARE = 0.1  # the count never takes more of 1 / z^2
_LEAST_BATCH = 2.0  # times the count's deviation: with fewer examples the count is useless


@dataclass(frozen=True, slots=True)
class NoiseSplit:
    """Noise multipliers, each relative to its own sensitivity: C for the sum, 1/2 for the count."""

    sum: float
    count: float

    @property
    def ratio(self) -> float:
        """How far a record moves the count, as a multiple of C, when both are scaled to equal noise."""
        return self.sum / self.count

    @property
    def together(self) -> float:
        """The noise multiplier of both as one mechanism."""
        return 1 / math.hypot(1 / self.sum, 1 / self.count)


def split_noise(noise_multiplier: float, expected_batch_size: int) -> NoiseSplit:
    """The split of `noise_multiplier` for a step with so many expected examples.

    ConfigError if the batch is too small for a useful count.
    """
    of_count = noise_multiplier / math.sqrt(_MOST_SHARE)  # its least noise multiplier
    deviation = max(expected_batch_size / _OF_BATCH, of_count / 2)
    if expected_batch_size < _LEAST_BATCH * deviation:
        raise ConfigError(
            f"adaptive-clipping: an expected batch of {expected_batch_size} is too small beside noise "
            f"multiplier {noise_multiplier:g}: its noised count would say next to nothing. Expected at "
            f"least {math.ceil(of_count)} examples; or leave adaptive-clipping out."
        )
    count = 2 * deviation
    return NoiseSplit(noise_multiplier / math.sqrt(1 - (noise_multiplier / count) ** 2), count)
