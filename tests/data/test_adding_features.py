"""Features are added by adding one file: shown with a copy of fl_dp that gets one more."""

from typing import Any

EDGES = '''\
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
'''

USE = """\
from fl_dp.choices import FEATURES
from fl_dp.config.run import RunConfig
from fl_dp.errors import FlDpError
from fl_dp.launch.preflight import check_choices, check_names, check_parts, check_server
from fl_dp.tasks.load import task_of

print(" ".join(FEATURES.names()))
config = RunConfig(features="edges")
for check in (check_names, check_choices, check_server):
    check(config)
print(task_of(config).form)
print(check_parts(config)[-1])
for features, check in (("edgs", check_names), ("edges:2", check_choices)):
    try:
        check(RunConfig(features=features))
    except FlDpError as error:
        print(error)
"""


def test_one_file_is_listed_and_computed(copied: Any) -> None:
    copied.add("data/features/edges.py", EDGES)
    names, form, note, unknown, wrong = copied.lines(USE)
    assert names == "edges scatter"
    assert form == "numbers of shape (1, 8, 7) to 10 classes"
    assert note == "features edges of all records take 0 MiB, and are computed before the first step"
    assert unknown == "features = 'edgs': expected edges or scatter; did you mean edges?"
    assert wrong == "features = 'edges:2': edges takes no argument; write edges."
