"""The local algorithms, each a row of the table at the end. See `local_algorithm.py`."""

from collections.abc import Mapping

from torch import Tensor

from fl_dp.training.local_algorithm import Arrays, LocalAlgorithm, Sums


class FedProx(LocalAlgorithm):
    """FedProx (Li et al. 2020, arXiv 1812.06127): steps are pulled back to the global weights.

    w <- w - rate (g + pull (w - w_global)), where g is the mean noised gradient. The gradient of the paper's
    term pull/2 |w - w_global|^2 depends on no record, so it is added after clipping and noise.
    """

    pulled = True

    def begin(self, start: Arrays, kept: Arrays) -> None:
        super().begin(start, kept)
        self._anchor: Mapping[str, Tensor] = start

    def corrected(self, sums: Sums, divisor: float) -> Sums:
        return self.pulled_to(self._anchor, sums, divisor)


class MrMtl(FedProx):
    """MR-MTL (Liu, Hu, Wu, Smith 2022, arXiv 2206.07902): each site has its own model, pulled to their mean.

    w_k <- w_k - rate (g + pull (w_k - w_mean)), where g is the mean noised gradient. The server sends w_mean,
    the mean of the sites' models. A site's first round starts from it, all later ones from the site's own
    model. Every round sends the whole model, for the next mean, and epsilon covers it. With pull 0 each site
    trains alone.
    """

    keeps_model = True


CHOICES = {
    # McMahan et al. 2017, arXiv 1602.05629: rounds start from the global weights; no correction
    "fedavg": LocalAlgorithm,
    "fedprox": FedProx,
    "mr-mtl": MrMtl,
}
