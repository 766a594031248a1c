"""Differences of neighbours."""

from torch import Tensor

from fl_dp.data.fixed_features import Features


def edges(x: Tensor, argument: str) -> Tensor:
    return x.float().diff(dim=3)


def shape(record: tuple[int, ...], argument: str) -> tuple[int, ...]:
    if len(record) != 3:
        raise ValueError("expected images")
    return *record[:2], record[2] - 1


FEATURES = Features(edges, shape)
