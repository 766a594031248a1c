import subprocess
import sys

import numpy as np
import pytest

from fl_dp.data.flwr_partitioners import LabelDataSet, partitioners

HEAVY = {"datasets", "pandas", "pyarrow", "matplotlib", "seaborn"}

LIGHT = f"""
import sys
from fl_dp.data.flwr_partitioners import LabelDataSet, partitioners
light = partitioners()
assert light.IidPartitioner and light.DirichletPartitioner
left = {HEAVY | {"flwr_datasets"}!r} & set(sys.modules)
assert not left, left
import flwr_datasets, datasets
assert flwr_datasets.FederatedDataset
assert flwr_datasets.partitioner.partitioner.Dataset is datasets.Dataset
partitioners.cache_clear()
again = partitioners()
assert again.partitioner.Dataset is LabelDataSet
assert sys.modules["flwr_datasets"] is flwr_datasets and sys.modules["datasets"] is datasets
"""

SAME = """
import numpy as np
from datasets import Dataset
from flwr_datasets import partitioner as whole
from fl_dp.data.flwr_partitioners import LabelDataSet, partitioners

labels = np.random.default_rng(0).integers(0, 10, 1003)
for name, arguments in (
    ("IidPartitioner", (7,)),
    ("DirichletPartitioner", (7, "label", 0.5)),
    ("PathologicalPartitioner", (7, "label", 2)),
    ("SizePartitioner", ([100, 3, 20],)),
    ("InnerDirichletPartitioner", ([100, 30, 20], "label", 0.5)),
    ("ShardPartitioner", (7, "label", 2)),
    ("LinearPartitioner", (7,)),
    ("SquarePartitioner", (7,)),
    ("ExponentialPartitioner", (5,)),
    ("ContinuousPartitioner", (7, "label", 0.5)),
):
    theirs, ours = getattr(whole, name)(*arguments), getattr(partitioners(), name)(*arguments)
    theirs.dataset = Dataset.from_dict({"label": labels, "row": range(len(labels))})
    ours.dataset = LabelDataSet(labels)
    for part in range(ours.num_partitions):
        assert theirs.load_partition(part)["row"] == list(ours.load_partition(part)), name
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "script", [LIGHT, SAME], ids=["light, and leaves the package whole", "the same parts"]
)
def test_in_a_process_of_its_own(script: str) -> None:
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True)


def test_a_failed_import_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        assert sys.modules["datasets"].Dataset is LabelDataSet
        raise ImportError(name)

    before = dict(sys.modules)
    monkeypatch.setattr("fl_dp.data.flwr_partitioners.importlib.import_module", fail)
    partitioners.cache_clear()
    with pytest.raises(ImportError, match=r"flwr_datasets\.partitioner"):
        partitioners()
    assert sys.modules == before


def test_shards_are_neighbours_and_the_first_are_the_larger_ones() -> None:
    shards = [LabelDataSet(np.zeros(11, dtype=np.int64)).shard(3, k, contiguous=True) for k in range(3)]
    assert [shard.tolist() for shard in shards] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10]]
    assert LabelDataSet(np.array([5, 3, 5, 3])).sort("label").select([0, 1, 2, 3]).tolist() == [1, 3, 0, 2]
    with pytest.raises(NotImplementedError):
        LabelDataSet(np.zeros(11, dtype=np.int64)).shard(3, 0, contiguous=False)
