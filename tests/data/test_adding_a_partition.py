"""A partition is added by adding one file: shown with a copy of fl_dp that gets one more."""

from typing import Any

BY_LABEL = '''\
"""Every STEP-th record, sorted by label, in equal shares."""

from collections.abc import Sequence

import numpy as np

from fl_dp.data.partition_scheme import Indices, Labels, Partition, PartitionSettings


def split(labels: Labels, settings: PartitionSettings) -> Sequence[Indices]:
    rows = np.argsort(labels, kind="stable")[:: int(settings.argument)]
    return np.array_split(rows, settings.number)


PARTITION = Partition(split, argument="STEP")
'''

USE = """\
from fl_dp.choices import PARTITIONS
from fl_dp.config.client import ClientConfig
from fl_dp.config.run import RunConfig
from fl_dp.tasks.records import load_part
from fl_dp.errors import FlDpError
from fl_dp.federation.client.registration import dataset_name
from fl_dp.launch.preflight import check_choices

print(" ".join(PARTITIONS.names()))
config = ClientConfig(client="0", ledger="l", num_partitions=10, partition_id=3, partition="by_label:2")
print(dataset_name(config))
print(len(load_part(config)))
for partition in ("bylabel", "by_label"):
    try:
        check_choices(RunConfig(partition=partition))
    except FlDpError as error:
        print(error)
"""


def test_one_file_is_listed_used_and_named_in_ledgers(copied: Any) -> None:
    copied.add("data/partitions/by_label.py", BY_LABEL)
    names, in_ledger, records, unknown, without = copied.lines(USE)
    assert "by_label" in names.split()
    assert in_ledger == "digits, part 3/10 (by_label:2, seed 0)"
    assert int(records) in (72, 73)  # a tenth of half of 1442
    assert unknown.startswith("partition = 'bylabel': expected by or by_label or ")
    assert without == "partition = 'by_label': by_label takes an argument; write by_label:STEP."
