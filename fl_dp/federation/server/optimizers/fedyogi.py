"""FedYogi (Reddi et al. 2021, arXiv 2003.00295, algorithm 2): its second moment forgets slowly.

When changes become small, Adam's second moment decays by a constant factor each round, Yogi's by an amount
that depends on the change.
"""

import numpy as np

from fl_dp.federation.server.optimizers.fedadam import BETA_2, FedAdam
from fl_dp.federation.wire.arrays import NDArray


class FedYogi(FedAdam):
    def _second(self, second: NDArray, square: NDArray) -> NDArray:
        moved: NDArray = second - (1 - BETA_2) * square * np.sign(second - square)
        return moved


SERVER_OPTIMIZER = FedYogi
