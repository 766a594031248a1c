"""FedAvg (McMahan et al. 2017, arXiv 1602.05629): rounds start from the global weights; no correction."""

from fl_dp.training.local_algorithm import LocalAlgorithm

LOCAL_ALGORITHM = LocalAlgorithm
