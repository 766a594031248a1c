import subprocess
import sys

import pytest

SCRIPT = """
import sys
from fl_dp.data.flwr_partitioners import import_partitioners
light = import_partitioners()
assert light.IidPartitioner and light.DirichletPartitioner
heavy = {"matplotlib", "seaborn", "flwr_datasets"} & set(sys.modules)
assert not heavy, heavy
import flwr_datasets
assert flwr_datasets.partitioner is light
assert flwr_datasets.FederatedDataset
assert import_partitioners() is light
"""


@pytest.mark.slow
def test_it_is_light_and_leaves_the_package_whole() -> None:
    subprocess.run([sys.executable, "-c", SCRIPT], check=True)
