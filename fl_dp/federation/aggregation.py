"""Federated averaging (McMahan et al. 2017, arXiv 1602.05629) with public weights."""

from collections.abc import Mapping, Sequence

import numpy as np

from fl_dp.federation.arrays import NDArray


def federated_average(
    updates: Sequence[Mapping[str, NDArray]], weights: Sequence[float]
) -> dict[str, NDArray]:
    """The mean of the updates, array by array, weighted by `weights` (> 0, one for each update).

    Summed in float64 and returned in each array's own type: the result does not depend, beyond the last
    bit, on who answered first. Post-processing of noised updates: it costs no privacy.
    """
    shares = np.asarray(weights, dtype=np.float64) / np.sum(weights, dtype=np.float64)
    return {name: _mean([update[name] for update in updates], shares) for name in updates[0]}


def _mean(arrays: Sequence[NDArray], shares: NDArray) -> NDArray:
    total = np.zeros(arrays[0].shape, dtype=np.float64)
    for array, share in zip(arrays, shares, strict=True):
        total += share * array.astype(np.float64)
    return total.astype(arrays[0].dtype)
