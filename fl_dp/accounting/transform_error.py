"""What the Fourier transforms of an accountant may get wrong."""

import sys

from fl_dp.records import Entry, total_steps


def transform_error(entries: tuple[Entry, ...]) -> float:
    """Bound of the rounding error in delta.

    A transform is raised to the power `steps`, so that its error grows with the steps. Against the exact
    delta of the Gaussian mechanism, 10^2 to 10^7 steps, at most 0.18 machine epsilons a step were seen.
    """
    return total_steps(entries) * sys.float_info.epsilon
