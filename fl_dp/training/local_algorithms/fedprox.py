"""FedProx (Li et al. 2020, arXiv 1812.06127): steps are pulled back to the global weights.

w <- w - rate (g + pull (w - w_global)), where g is the mean noised gradient. The gradient of the paper's
term pull/2 |w - w_global|^2 depends on no record, so it is added after clipping and noise.
"""

from collections.abc import Mapping

from torch import Tensor

from fl_dp.training.local_algorithm import Arrays, LocalAlgorithm, Sums


class FedProx(LocalAlgorithm):
    pulled = True

    def begin(self, start: Arrays, kept: Arrays) -> None:
        super().begin(start, kept)
        self._anchor: Mapping[str, Tensor] = start

    def corrected(self, sums: Sums, divisor: float) -> Sums:
        return self.pulled_to(self._anchor, sums, divisor)


LOCAL_ALGORITHM = FedProx
