"""MR-MTL (Liu, Hu, Wu, Smith 2022, arXiv 2206.07902): each site has its own model, pulled to their mean.

w_k <- w_k - rate (g + pull (w_k - w_mean)), where g is the mean noised gradient. The server sends w_mean, the
mean of the sites' models. A site's first round starts from it, all later ones from the site's own model.
Every round sends the whole model, for the next mean, and epsilon covers it. With pull 0 each site trains
alone.
"""

from fl_dp.training.local_algorithms.fedprox import FedProx


class MrMtl(FedProx):
    keeps_model = True


LOCAL_ALGORITHM = MrMtl
