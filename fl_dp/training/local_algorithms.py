"""The local algorithms, each a row of the table at the end. See `local_algorithm.py`."""

from collections.abc import Mapping

import torch
from torch import Tensor

from fl_dp.records import CONTROL
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


class Scaffold(LocalAlgorithm):
    """DP-SCAFFOLD (Noble, Bellet, Dieuleveut 2022, arXiv 2111.09278, algorithm 1): steps without drift.

    w <- w - rate (g - c_k + c), where g is the mean noised gradient, c_k the mean of g over the client's last
    round, and c the server's mean of all c_k. At the end of a round c_k becomes the mean of this round's g,
    and the client sends its change; the server adds that to c (`federation/server/controls.py`). All of these
    are means of noised gradients, so only the steps are accounted for. The paper's accounting is not used,
    because its sampling differs.
    """

    controlled = True

    def begin(self, start: Arrays, kept: Arrays) -> None:
        super().begin(start, kept)
        self._server = {name: start[CONTROL + name] for name in self.shared}
        self._last = {
            name: kept[CONTROL + name].to(self.parameters[name].device)
            if CONTROL + name in kept
            else torch.zeros_like(self.parameters[name])
            for name in self.shared
        }
        self._total = {name: torch.zeros_like(self.parameters[name]) for name in self.shared}
        self._steps = 0

    def corrected(self, sums: Sums, divisor: float) -> Sums:
        self._steps += 1
        return [self._one(name, total, divisor) for name, total in zip(self.parameters, sums, strict=True)]

    def sent(self) -> dict[str, Tensor]:
        return {CONTROL + name: new - self._last[name] for name, new in self._means().items()}

    def kept(self) -> dict[str, Tensor]:
        return super().kept() | {CONTROL + name: new for name, new in self._means().items()}

    def _one(self, name: str, total: Tensor | None, divisor: float) -> Tensor | None:
        if total is None or name not in self.shared:
            return total
        self._total[name] += (total / divisor).to(self._total[name].dtype)
        return total + divisor * (self._server[name] - self._last[name])

    def _means(self) -> dict[str, Tensor]:
        return {name: total / self._steps for name, total in self._total.items()}


CHOICES = {
    # McMahan et al. 2017, arXiv 1602.05629: rounds start from the global weights; no correction
    "fedavg": LocalAlgorithm,
    "fedprox": FedProx,
    "mr-mtl": MrMtl,
    "scaffold": Scaffold,
}
