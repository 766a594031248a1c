"""MR-MTL (Liu, Hu, Wu, Smith 2022, arXiv 2206.07902): a model of its own at each site, pulled to their mean.

w_k <- w_k - rate (g + pull (w_k - w_mean)), where g is the noised gradient's mean and w_mean what the server
sent: the mean of the sites' models. A site's first round starts from it, all others from its own model. The
whole model is sent in every round, for the next mean, and covered by epsilon. At pull 0 sites train alone.
"""

from fl_dp.training.local_algorithms.fedprox import FedProx


class MrMtl(FedProx):
    keeps_model = True


LOCAL_ALGORITHM = MrMtl
