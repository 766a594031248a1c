"""All records of a group are at one client."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from fl_dp.data.partition import parts_of
from fl_dp.data.partition_scheme import PartitionSettings, is_whole, rule_of
from fl_dp.data.tensor_data import TensorData
from fl_dp.errors import DataError

GROUPS = tuple(f"h{i % 5}" for i in range(23))


def data(groups: tuple[str, ...] = GROUPS, grouped_by: str = "hospital") -> TensorData:
    number = len(groups) or 23
    x = torch.arange(float(number)).view(-1, 1)
    return TensorData(x, torch.zeros(number), (), groups=groups, grouped_by=grouped_by)


def settings(number: int, scheme: str = "by:hospital", seed: int = 0) -> PartitionSettings:
    return PartitionSettings(scheme, number, seed=seed)


def groups_of(number: int, **changed: Any) -> list[list[str]]:
    records = data()
    return [
        sorted({records.groups[i] for i in part}) for part in parts_of(records, settings(number, **changed))
    ]


def test_as_many_clients_as_groups_have_one_each_in_the_order_of_their_names() -> None:
    assert rule_of(settings(5)) == "by:hospital, seed 0"
    assert groups_of(5) == [["h0"], ["h1"], ["h2"], ["h3"], ["h4"]]
    for grouped_by in ("hospital", ""):  # a task that names no column may be split by any
        parts = parts_of(data(grouped_by=grouped_by), settings(5))
        assert parts[2].tolist() == [2, 7, 12, 17, 22]
    assert np.sort(np.concatenate(parts_of(data(), settings(3)))).tolist() == list(range(23))


def test_fewer_clients_have_several_groups_each_drawn_by_the_seed() -> None:
    dealt = groups_of(2)
    assert sorted(map(len, dealt)) == [2, 3]
    assert sorted(name for part in dealt for name in part) == ["h0", "h1", "h2", "h3", "h4"]
    assert groups_of(2) == dealt
    assert any(groups_of(2, seed=seed) != dealt for seed in range(1, 6))


def test_one_client_has_all_groups() -> None:
    assert groups_of(1) == [["h0", "h1", "h2", "h3", "h4"]]
    assert not is_whole(settings(1))  # else a column that is not there would be passed over


@pytest.mark.parametrize(
    ("records", "asked", "words"),
    [
        (data(), settings(6), "there are 5 groups, too few for 6 clients; set clients = 5"),
        (data((), ""), settings(2), r"have no groups\. A table's schema .*array groups_train,"),
        (data(), settings(2, "by:user"), "are grouped by 'hospital'; write by:hospital"),
    ],
    ids=["clients", "no groups", "column"],
)
def test_what_cannot_be_split_by_groups_is_refused(
    records: TensorData, asked: PartitionSettings, words: str
) -> None:
    with pytest.raises(DataError, match=words):
        parts_of(records, asked)


def test_sites_go_before_groups_and_each_by_its_own_name() -> None:
    sites = tuple(f"s{i % 2}" for i in range(23))
    records = dataclasses.replace(data(), sites=sites, sites_by="site")
    by_site, by_group = (parts_of(records, settings(2, scheme=f"by:{name}")) for name in ("site", "hospital"))
    assert [{sites[i] for i in part} for part in by_site] == [{"s0"}, {"s1"}]
    assert sorted(len({GROUPS[i] for i in part}) for part in by_group) == [2, 3]
    with pytest.raises(DataError, match="by 'site' and 'hospital'; write by:site or by:hospital"):
        parts_of(records, settings(2, scheme="by:user"))
    alone = dataclasses.replace(data(groups=(), grouped_by=""), sites=sites)
    assert [len(part) for part in parts_of(alone, settings(2, scheme="by:whatever"))] == [12, 11]
